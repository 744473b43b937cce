"""The vocabulary of commands: what follows a hit, and by which policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from string import Template
from typing import Any, Final
from uuid import UUID, uuid5

from detectsched.detection import Detection, Hit

_NAMESPACE: Final = UUID("5d1f63c4-6f4b-5c0e-9a55-0d0c2a7b8e11")
"""Of command ids; never changed, or a command written again would have another id."""

PLACEHOLDERS: Final = frozenset({"task_id", "level", "hit_count", "category", "word"})
"""What the texts of a policy may name as ``$level`` or ``${level}``; all of them speak of the gravest hit."""


class CommandKind(StrEnum):
    """What a device, or whoever acts for it, is told to do."""

    NOTIFY = "notify"
    """Show a message."""
    LOCK_SCREEN = "lock_screen"
    """Lock the screen, and show a message."""
    CUSTOM = "custom"
    """Whatever the policy's payload says."""


class CommandState(StrEnum):
    """Where a command stands."""

    PENDING = "pending"
    """The device has not confirmed it."""
    ACKNOWLEDGED = "acknowledged"
    """The device has."""


class WebhookEvent(StrEnum):
    """What webhooks subscribe to; callbacks of tasks are told ``task.<state>``."""

    NOTIFY = "command.notify"
    LOCK_SCREEN = "command.lock_screen"
    CUSTOM = "command.custom"


@dataclass(frozen=True, slots=True)
class CommandPolicy:
    """One rule of a tenant: hits of these levels and categories are followed by a command.

    ``max_level`` None means no limit, no ``categories`` means all. ``message`` and the texts inside ``payload`` may
    name `PLACEHOLDERS`.
    """

    id: str
    kind: CommandKind
    min_level: int = 1
    max_level: int | None = None
    categories: tuple[str, ...] = ()
    message: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)

    def covers(self, hit: Hit) -> bool:
        """Whether a hit is of this policy's categories."""
        return not self.categories or hit.category in self.categories


@dataclass(frozen=True, slots=True)
class NewCommand:
    """A command that follows a task's hits."""

    id: UUID
    task_id: UUID
    policy: str
    kind: CommandKind
    level: int
    body: Mapping[str, Any]


def commands_for(task_id: UUID, detection: Detection, policies: Sequence[CommandPolicy]) -> list[NewCommand]:
    """Return what follows a detection: one command for each policy whose levels hold that of its gravest hit."""
    return [
        _command(task_id, policy, hits)
        for policy in policies
        if (hits := [hit for hit in detection.hits if policy.covers(hit)])
        and policy.min_level <= _gravest(hits).level <= (policy.max_level or _gravest(hits).level)
    ]


def command_id(task_id: UUID, kind: CommandKind, policy: str) -> UUID:
    """Return the id under which a policy's command of a task is known: the same however often it is worked out."""
    return uuid5(_NAMESPACE, f"{task_id}/{kind.value}/{policy}")


def unknown_placeholders(value: object) -> list[str]:
    """Return what the texts of a policy name wrongly: names that are no `PLACEHOLDERS`, and lone dollar signs."""
    wrong: set[str] = set()
    for text in _texts(value):
        template = Template(text)
        if not template.is_valid():
            wrong.add("$")
        wrong |= set(template.get_identifiers()) - PLACEHOLDERS
    return sorted(wrong)


def _command(task_id: UUID, policy: CommandPolicy, hits: Sequence[Hit]) -> NewCommand:
    gravest = _gravest(hits)
    known = {
        "task_id": str(task_id),
        "level": str(gravest.level),
        "hit_count": str(len(hits)),
        "category": gravest.category,
        "word": gravest.word,
    }
    body = {
        "message": _filled(policy.message, known),
        "payload": _filled(policy.payload, known),
        "hit_count": len(hits),
        "categories": sorted({hit.category for hit in hits}),
    }
    return NewCommand(command_id(task_id, policy.kind, policy.id), task_id, policy.id, policy.kind, gravest.level, body)


def _gravest(hits: Sequence[Hit]) -> Hit:
    """Return the first of the hits of the highest level."""
    return max(hits, key=lambda hit: hit.level)


def _filled(value: object, known: Mapping[str, str]) -> object:
    match value:
        case str():
            return Template(value).safe_substitute(known)
        case Mapping():
            return {key: _filled(inner, known) for key, inner in value.items()}
        case list():
            return [_filled(inner, known) for inner in value]
        case _:
            return value


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for inner in value.values():
                yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)
