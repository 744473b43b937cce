"""Places at which a process can be made to die, hang or fail, so that tests prove that it may at each of them.

Off unless the setting ``failpoints`` names some; `hit` does nothing then, and costs a call. The setting is a list with
commas of ``NAME=ACTION``, or ``NAME=ACTION@N`` for the N-th time that the place is passed. The actions: ``exit`` (as by
kill -9), ``hang:SECONDS`` (the whole process stops, as by SIGSTOP), ``raise`` (as by a bug). Each happens once.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Final

from detectsched.errors import ConfigurationError

NAMES: Final = frozenset(
    {
        "accept.before_commit",
        "accept.after_commit",
        "accept.after_enqueue",
        "accept.before_response",
        "cancel.after_commit",
        "dispatch.before_move",
        "dispatch.after_move",
        "run.after_claim",
        "run.after_start_mark",
        "run.before_read",
        "run.after_read",
        "run.before_result_commit",
        "run.after_result_commit",
        "run.before_ack",
        "run.after_ack",
        "run.before_give_back",
        "run.after_give_back",
        "reap.after_take_over",
        "recover.after_commit",
        "promote.after_take_over",
        "expire.after_commit",
        "settle.after_commit",
        "reconcile.after_read",
        "rebuild.after_begin",
        "rebuild.after_wipe",
        "rebuild.after_requeue",
        "rebuild.after_open",
        "webhook.before_send",
        "webhook.after_send",
    }
)
"""A test compares them with the places in the source."""

_KILLED: Final = 137
_WORDS: Final = re.compile(
    r"(?P<name>[a-z_.]+)=(?P<action>exit|raise|hang:(?P<seconds>\d+(\.\d+)?))(@(?P<nth>[1-9]\d*))?"
)


class FailpointRaised(Exception):
    """A failpoint was told to raise: it stands for any bug."""


def _nothing(_name: str) -> None:
    """Do nothing: no failpoint is armed."""


hit: Callable[[str], None] = _nothing
"""Pass a place of this name."""


def arm(spec: str) -> None:
    """Arm what the setting names, once, at the start of the process; nothing, for an empty one.

    Raises:
        ConfigurationError: it names what is no failpoint, or no action.
    """
    global hit  # noqa: PLW0603 - replaced as a whole, so that nothing is looked up while none is armed
    hit = _Armed(spec) if spec else _nothing


class _Armed:
    """What is still to happen: per name, the passes left and the action."""

    def __init__(self, spec: str) -> None:
        self._left: dict[str, tuple[int, str, float]] = {}
        for part in spec.split(","):
            found = _WORDS.fullmatch(part.strip())
            if found is None or found["name"] not in NAMES:
                raise ConfigurationError(
                    f"DETECTSCHED_FAILPOINTS: {part.strip()!r} is no failpoint; write NAME=exit, NAME=raise or "
                    f"NAME=hang:SECONDS, with one of: {', '.join(sorted(NAMES))}"
                )
            self._left[found["name"]] = int(found["nth"] or 1), found["action"], float(found["seconds"] or 0)

    def __call__(self, name: str) -> None:
        """Count a pass; at the last one, do what is to be done."""
        if name not in self._left:
            return
        passes, action, seconds = self._left.pop(name)
        if passes > 1:
            self._left[name] = passes - 1, action, seconds
            return
        # Written past every buffer: the process may be gone with the next instruction.
        os.write(2, f'{{"event": "failpoint", "name": "{name}", "action": "{action}"}}\n'.encode())
        if action == "exit":
            os._exit(_KILLED)
        if action == "raise":
            raise FailpointRaised(name)
        time.sleep(seconds)
