"""What callers decide about devices, tenants, lanes, runners and dead letters: the bodies of those requests.

Limits refuse what nobody can mean. A rate below one in 100 s is one of them: a device that has used it up waits that
long also when the rate is lifted meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints

from detectsched.api.bodies import Lane, ListId, RequestModel
from detectsched.api.fields import WHOLE, Mac, ObjectName, never
from detectsched.api.moments import Moment
from detectsched.errors import Conflict, InvalidRequest, NotFound
from detectsched.jwe import KeyAlgorithm
from detectsched.task import TaskKind

_LOWEST_RATE: Final = 0.01


def _is_rate(value: float) -> float:
    if 0 < value < _LOWEST_RATE:
        raise ValueError("the lowest rate is 0.01 (a task in 100 s); 0 means no limit")
    return value


_Words = StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$")

Weight = Annotated[float, Field(ge=0.001, le=1000, allow_inf_nan=False)]
InFlight = Annotated[int, Field(ge=0, le=100_000), WHOLE]
Rate = Annotated[
    float,
    Field(
        ge=0,
        le=100_000,
        allow_inf_nan=False,
        json_schema_extra={"not": {"exclusiveMinimum": 0, "exclusiveMaximum": _LOWEST_RATE}},
    ),
    AfterValidator(_is_rate),
]
Burst = Annotated[int, Field(ge=0, le=100_000), WHOLE]
RunnerLabel = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,253}$")]
ReasonWord = Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,64}$")]


class PauseRequest(RequestModel):
    """Why something is paused or drained."""

    reason: Annotated[str, StringConstraints(max_length=200), _Words] = ""
    """For people; it is shown to whoever asks why a task waits."""


class _Change(RequestModel):
    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    _defaults: ClassVar[Mapping[str, Any]] = {}

    def columns(self) -> dict[str, Any]:
        """Return what is to be set; null has become the default.

        Raises:
            InvalidRequest: nothing is to be set.
        """
        if not self.model_fields_set:
            raise InvalidRequest(f"nothing is to be changed: give at least one of {', '.join(type(self).model_fields)}")
        given = {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}
        return {name: self._defaults.get(name) if value is None else value for name, value in given.items()}


class ChangeDevice(_Change):
    """What a device may have; fields that are left out stay as they are, null goes back to the default."""

    _defaults: ClassVar = {"name": "", "in_flight": 0, "rate": 0.0, "burst": 0}

    name: Annotated[str, StringConstraints(max_length=200), _Words] | None = None
    """What people call it."""
    weight: Weight | None = None
    """Its share relative to the other devices of its tenant; null: the tenant's `device_weight`."""
    in_flight: InFlight | None = None
    """Most of its tasks of one lane that run at once; null or 0: the system's default."""
    rate: Rate | None = None
    """Most tasks started per second in one lane; null or 0: no limit."""
    burst: Burst | None = None
    """Most tasks started at once after a pause, where there is a rate; null or 0: one."""


class ChangeObject(_Change):
    """What is set for an object; fields that are left out stay as they are, null goes back to the default."""

    _defaults: ClassVar = {}

    word_lists: Annotated[list[ListId], Field(max_length=100)] | None = None
    """Ids of the lists that judge its tasks where these name none; null: the tenant's default lists."""


class ChangeTenant(_Change):
    """What a tenant may have; fields that are left out stay as they are, null goes back to the default."""

    _defaults: ClassVar = {"device_weight": 1.0, "weight": 1.0, "rate": 0.0, "burst": 0, "encrypt_at_rest": False}

    device_weight: Weight | None = None
    """Weight of devices that have none of their own; null: 1."""
    weight: Weight | None = None
    """Its share relative to the other tenants, null: 1. Needs a key that has the scope `operate` as well."""
    rate: Rate | None = None
    """Most tasks started per second, of all its devices together; null or 0: no limit. Needs `operate`."""
    burst: Burst | None = None
    """Most tasks started at once after a pause, where there is a rate; null or 0: one. Needs `operate`."""
    encrypt_at_rest: bool | None = None
    """Whether what is accepted from now on is encrypted where it is kept: text, image, reading, matches."""


class CreateEncryptionKey(RequestModel):
    """What kind of key to make for encrypted requests."""

    algorithm: Annotated[KeyAlgorithm, Field(strict=False)] = KeyAlgorithm.ECDH
    """`RSA-OAEP-256` is for senders that have RSA only."""


class LetterSelection(RequestModel):
    """Which dead letters; without any field all of the tenant's."""

    reason: ReasonWord | None = None
    """Only those that died of this, as in `error.reason`."""
    lane: Lane | None = None
    """Only those of this lane."""
    mac: Mac | None = None
    """Only those of this device, in any usual spelling of its MAC address."""
    object: ObjectName | None = None
    """Only those of this object."""
    kind: TaskKind | None = None
    """Only those of this kind."""
    since: Moment | None = None
    """Only those that died at this time or later."""
    until: Moment | None = None
    """Only those that died before this time."""


class _LetterAction(RequestModel):
    model_config = ConfigDict(
        json_schema_extra=never({"properties": {"dry_run": {"const": False}, "expected_count": {"type": "null"}}})
    )

    filter: LetterSelection
    """Which; an empty object means all."""
    expected_count: Annotated[int, Field(ge=0), WHOLE] | None = None
    """How many they should be; if it is another number, nothing is done. Needed unless it is a dry run."""
    dry_run: bool = False
    """Only say how many they are."""

    def check_count(self, matched: int) -> None:
        """Return if the action may be done to as many as match.

        Raises:
            InvalidRequest: nobody said how many there should be.
            NotFound: nothing matches.
            Conflict: another number matches.
        """
        if self.expected_count is None:
            raise InvalidRequest(
                "say how many you expect; a dry run (dry_run: true) tells how many they are", field="expected_count"
            )
        if matched == 0:
            raise NotFound("no dead letter matches the filter: nothing was done")
        if matched != self.expected_count:
            raise Conflict(
                f"{matched} dead letters match the filter, not {self.expected_count}: nothing was done; look at them "
                "again, and send the new number if it is what you mean"
            )


class RedriveRequest(_LetterAction):
    """Which dead letters to try again, and how fast."""

    rate_per_second: Annotated[float, Field(ge=0.01, le=1000, allow_inf_nan=False)] | None = None
    """How many may start per second; null: all at once, in their fair turn."""


class PurgeRequest(_LetterAction):
    """Which dead letters to remove for good."""
