"""A dozen simulated devices: what each of them sends, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from detectsched.demo.corpus import Exhibit, TextExhibit

_DEVICES: Final = 12
_FLOOD_SHARE: Final = 0.3
"""One device sends this share of all texts: the others must not wait for it."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A task that a device has submitted, with the words that are to be found in it."""

    task_id: str
    name: str
    planted: tuple[str, ...]
    is_image: bool


@dataclass(slots=True)
class Device:
    """One device: its address, what it has to send, and what it has sent."""

    mac: str
    images: list[Exhibit] = field(default_factory=list)
    texts: list[TextExhibit] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)


def fleet_of(images: Sequence[Exhibit], texts: Sequence[TextExhibit]) -> list[Device]:
    """Give each device its images and texts; the first one floods."""
    devices = [Device(f"02:de:05:00:00:{number:02x}") for number in range(1, _DEVICES + 1)]
    for index, image in enumerate(images):
        devices[index % _DEVICES].images.append(image)
    flood = round(len(texts) * _FLOOD_SHARE)
    devices[0].texts.extend(texts[:flood])
    for index, text in enumerate(texts[flood:]):
        devices[1 + index % (_DEVICES - 1)].texts.append(text)
    return devices


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a task's hits compare with what was planted."""

    sent: Sent
    task: dict[str, Any]

    @property
    def wait_seconds(self) -> float | None:
        """Return how long the task waited for its start."""
        if self.task["started_at"] is None:
            return None
        started, created = (datetime.fromisoformat(self.task[name]) for name in ("started_at", "created_at"))
        return (started - created).total_seconds()

    @property
    def missing(self) -> list[str]:
        """Return the planted words that were not found."""
        return sorted((Counter(self.sent.planted) - self._found()).elements())

    @property
    def invented(self) -> list[str]:
        """Return the words that were found and not planted."""
        return sorted((self._found() - Counter(self.sent.planted)).elements())

    def places(self) -> Iterator[str]:
        """Yield each hit in words: what, and where."""
        for hit in self.task["hits"]:
            box = hit["box"]
            where = (
                f"{self.sent.name} ({box['left']},{box['top']})–({box['right']},{box['bottom']})"
                if box
                else f"text, characters {hit['start']}–{hit['end']}"
            )
            yield f"{hit['word']}: {where}"

    def _found(self) -> Counter[str]:
        return Counter(str(hit["word"]) for hit in self.task["hits"])
