"""What callers decide about commands and webhooks: the bodies of those requests."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Self
from uuid import UUID

from pydantic import ConfigDict, Field, StringConstraints, field_validator, model_validator

from detectsched.api.bodies import RequestModel
from detectsched.api.fields import WHOLE, Url, never, none_of
from detectsched.command import PLACEHOLDERS, CommandKind, CommandPolicy, WebhookEvent, unknown_placeholders
from detectsched.errors import InvalidRequest

_MOST_PAYLOAD: Final = 4096
_NAMES: Final = ", ".join(f"${{{name}}}" for name in sorted(PLACEHOLDERS))

Level = Annotated[int, Field(ge=1, le=100), WHOLE]
Category = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,64}$")]


class PutCommandPolicy(RequestModel):
    """Which command follows which hits."""

    model_config = ConfigDict(
        json_schema_extra=never(
            {
                "properties": {"kind": {"not": {"const": "custom"}}, "payload": {"minProperties": 1}},
                "required": ["payload"],
            }
        )
    )

    kind: Annotated[CommandKind, Field(strict=False)]
    """What is commanded: `notify`, `lock_screen`, or `custom`, which is whatever the payload says."""
    min_level: Level = 1
    """Only hits of at least this level."""
    max_level: Level | None = None
    """And of at most this one; null: no limit."""
    categories: Annotated[list[Category], Field(max_length=100)] = Field(default_factory=list)
    """Only hits of these categories; empty: of all."""
    message: Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00]*$")] = ""
    """What is shown; may name `${level}`, `${category}`, `${word}` (of the gravest hit), `${hit_count}`, `${task_id}`.
    """
    payload: dict[str, Any] = Field(default_factory=dict)
    """Of a custom command: any JSON object up to 4 KiB; its texts may name the same."""
    enabled: bool = True
    """Whether it is in force."""

    @field_validator("payload")
    @classmethod
    def _check_payload(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            written = json.dumps(value, allow_nan=False)
        except ValueError:
            raise ValueError("it holds a number that JSON does not have") from None
        if len(written) > _MOST_PAYLOAD:
            raise ValueError(f"it has {len(written)} bytes; at most {_MOST_PAYLOAD} are taken")
        if "\\u0000" in written:
            raise ValueError("it holds U+0000, which cannot be stored: take it out")
        return value

    @field_validator("message", "payload")
    @classmethod
    def _check_placeholders(cls, value: Any) -> Any:
        if wrong := unknown_placeholders(value):
            raise ValueError(f"it names {', '.join(wrong)}; there is {_NAMES}, and $$ for a dollar sign")
        return value

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        if self.max_level is not None and self.max_level < self.min_level:
            raise ValueError("max_level is below min_level: no hit would match")
        if self.payload and self.kind is not CommandKind.CUSTOM:
            raise ValueError("only a custom command has a payload")
        return self

    def policy(self, policy_id: str) -> CommandPolicy:
        """Return the policy."""
        return CommandPolicy(
            id=policy_id,
            kind=self.kind,
            min_level=self.min_level,
            max_level=self.max_level,
            categories=tuple(dict.fromkeys(self.categories)),
            message=self.message,
            payload=self.payload,
        )


Events = Annotated[list[Annotated[WebhookEvent, Field(strict=False)]], Field(min_length=1, max_length=20)]


class CreateWebhook(RequestModel):
    """An address that is to be told of commands."""

    url: Url
    """Where to; https, and an address of the public internet, unless the server's settings say otherwise."""
    events: Events = Field(default_factory=lambda: list(WebhookEvent))
    """What of; without it every kind of command."""


class ChangeWebhook(RequestModel):
    """What is to change about a webhook; fields that are left out stay as they are."""

    model_config = ConfigDict(json_schema_extra=never(none_of("url", "events", "enabled")))

    url: Url | None = None
    """Where to."""
    events: Events | None = None
    """What of."""
    enabled: bool | None = None
    """Whether messages are sent; those that wait meanwhile are sent when it is enabled again."""

    def columns(self) -> dict[str, Any]:
        """Return what is to be set.

        Raises:
            InvalidRequest: nothing is to be set.
        """
        given = {name: getattr(self, name) for name in type(self).model_fields}
        changes = {name: value for name, value in given.items() if value is not None}
        if not changes:
            raise InvalidRequest("nothing is to be changed: give at least one of url, events, enabled")
        if "events" in changes:
            changes["events"] = unique_events(changes["events"])
        return changes


class RedriveDeliveries(RequestModel):
    """Which dead messages are to be sent again; all of them, if nothing is said."""

    webhook_id: Annotated[UUID, Field(strict=False)] | None = None
    """Only those to this webhook."""
    task_id: Annotated[UUID, Field(strict=False)] | None = None
    """Only those about this task."""
    event: Annotated[str, StringConstraints(pattern=r"^[a-z._]{1,64}$")] | None = None
    """Only those of this event."""
    limit: Annotated[int, Field(ge=1, le=10_000), WHOLE] = 1000
    """Most messages."""


def unique_events(events: list[WebhookEvent]) -> list[str]:
    """Return the events as they are kept, each once."""
    return [event.value for event in dict.fromkeys(events)]
