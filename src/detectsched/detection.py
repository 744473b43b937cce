"""The vocabulary of detection: what an engine reads and what the matcher finds in it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Box:
    """An upright rectangle in pixels of the image as it is shown (EXIF orientation applied)."""

    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text that an engine read; ``score`` is its confidence, 0 to 1."""

    text: str
    box: Box
    score: float


@dataclass(frozen=True, slots=True)
class EngineResult:
    """What an engine made of a payload.

    ``width`` and ``height`` are those of the decoded image in pixels; ``seconds`` is the engine's own time, decoding
    included.
    """

    engine: str
    version: str
    lines: tuple[Line, ...]
    width: int
    height: int
    seconds: float

    def joined(self) -> Text:
        """Return the text to be matched: the lines joined by line breaks, with each line's start kept for its box."""
        starts: list[int] = []
        position = 0
        for line in self.lines:
            starts.append(position)
            position += len(line.text) + 1
        return Text("\n".join(line.text for line in self.lines), self.lines, tuple(starts))


@dataclass(frozen=True, slots=True)
class Text:
    """A text to be matched; for images it knows which stretch of it is which line.

    ``starts[i]`` is the offset in ``content`` (code points) at which ``lines[i]`` begins.
    """

    content: str
    lines: tuple[Line, ...] = ()
    starts: tuple[int, ...] = ()

    def box_of(self, start: int, end: int) -> Box | None:
        """Return the rectangle around the lines that ``content[start:end]`` touches; None for a plain text."""
        touched = [
            line.box
            for line, begin in zip(self.lines, self.starts, strict=True)
            if begin < end and start < begin + len(line.text)
        ]
        if not touched:
            return None
        return Box(
            min(box.left for box in touched),
            min(box.top for box in touched),
            max(box.right for box in touched),
            max(box.bottom for box in touched),
        )


@dataclass(frozen=True, slots=True)
class ListVersion:
    """One published state of one word list."""

    list_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Hit:
    """Something found: ``text[start:end]`` (original code points) is what stands there.

    ``word`` is the word that was sought, as the list has it, or the title of the rule that found it; ``rule`` is then
    the rule's kind. ``replacement`` is what a masked text shows in its place; None: asterisks.
    """

    word: str
    category: str
    level: int
    start: int
    end: int
    matched: str
    list: ListVersion
    box: Box | None = None
    rule: str | None = None
    tags: tuple[str, ...] = ()
    replacement: str | None = None


@dataclass(frozen=True, slots=True)
class Detection:
    """The judgement on one task: the hits, and which versions of which lists judged.

    ``cut`` says that there were more hits than are kept; the gravest are. ``shadow`` are the hits of lists in shadow
    mode, from which nothing follows.
    """

    hits: tuple[Hit, ...] = ()
    lists: tuple[ListVersion, ...] = field(default=())
    cut: bool = False
    shadow: tuple[Hit, ...] = ()
