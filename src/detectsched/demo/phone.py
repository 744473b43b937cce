"""The furniture of a phone screen: status bar, title bar, chat bubbles, input bar. Drawn for a width of 720 units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from detectsched.demo.canvas import Canvas, Color, rgb

WIDTH: Final = 720
HEIGHT: Final = 1560

_MESSAGE: Final = 31
_LEADING: Final = 45
_FACES: Final = ("5B8FF9", "F6903D", "61C0BF", "B37FEB", "E86452", "6DC8EC", "8D9F5A", "D46B9B")


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of an application, and whether it shows faces beside the bubbles."""

    ground: Color
    bar: Color
    ink: Color
    faint: Color
    rule: Color
    theirs: Color
    theirs_ink: Color
    mine: Color
    mine_ink: Color
    radius: int = 12
    faces: bool = True


GREEN: Final = Theme(
    ground=rgb("EDEDED"),
    bar=rgb("EDEDED"),
    ink=rgb("111111"),
    faint=rgb("9A9A9A"),
    rule=rgb("D9D9D9"),
    theirs=rgb("FFFFFF"),
    theirs_ink=rgb("111111"),
    mine=rgb("95EC69"),
    mine_ink=rgb("111111"),
)
DARK: Final = Theme(
    ground=rgb("111111"),
    bar=rgb("1B1B1B"),
    ink=rgb("D6D6D6"),
    faint=rgb("6E6E6E"),
    rule=rgb("2A2A2A"),
    theirs=rgb("2C2C2C"),
    theirs_ink=rgb("D8D8D8"),
    mine=rgb("3EB575"),
    mine_ink=rgb("06140C"),
)
BLUE: Final = Theme(
    ground=rgb("FFFFFF"),
    bar=rgb("F6F6F8"),
    ink=rgb("000000"),
    faint=rgb("8A8A8E"),
    rule=rgb("DADADD"),
    theirs=rgb("E9E9EB"),
    theirs_ink=rgb("000000"),
    mine=rgb("0A7CFF"),
    mine_ink=rgb("FFFFFF"),
    radius=34,
    faces=False,
)
WORK: Final = Theme(
    ground=rgb("F2F3F5"),
    bar=rgb("FFFFFF"),
    ink=rgb("1F2329"),
    faint=rgb("8F959E"),
    rule=rgb("DEE0E3"),
    theirs=rgb("FFFFFF"),
    theirs_ink=rgb("1F2329"),
    mine=rgb("CCE0FF"),
    mine_ink=rgb("1F2329"),
    radius=16,
)


def status_bar(canvas: Canvas, clock: str, ink: Color, battery: float = 0.8) -> None:
    """Draw the clock, the signal, the wireless and the battery into the topmost 64 units."""
    canvas.text(44, 36, clock, 27, ink, bold=True)
    for bar in range(4):
        left = 520 + bar * 10
        canvas.rectangle(left, 42 - bar * 5, left + 7, 48, ink, 1.5)
    for radius in (20, 13, 6):
        canvas.arc(590, 48, radius, 225, 315, ink, 4)
    canvas.frame(624, 24, 670, 48, ink, 7, 2.5)
    canvas.rectangle(672, 31, 676, 41, ink, 2)
    canvas.rectangle(629, 29, 629 + 37 * battery, 43.5, ink, 3.5)


def title_bar(canvas: Canvas, title: str, theme: Theme, note: str = "") -> None:
    """Draw the way back, the title with a note below, and the menu; the bar ends at 156."""
    canvas.rectangle(0, 64, WIDTH, 156, theme.bar)
    canvas.line([(50, 92), (34, 110), (50, 128)], theme.ink, 4)
    canvas.text(WIDTH / 2, 98 if note else 110, title, 33, theme.ink, bold=True, anchor="mm")
    if note:
        canvas.text(WIDTH / 2, 134, note, 21, theme.faint, anchor="mm")
    for dot in range(3):
        canvas.circle(656 + dot * 13, 110, 4, theme.ink)
    canvas.line([(0, 156), (WIDTH, 156)], theme.rule, 1.5)


def input_bar(canvas: Canvas, theme: Theme, top: float = HEIGHT - 142) -> None:
    """Draw the field to type in, its buttons, and the home indicator."""
    canvas.rectangle(0, top, WIDTH, canvas.height, theme.bar)
    canvas.line([(0, top), (WIDTH, top)], theme.rule, 1.5)
    middle = top + 54
    canvas.ring(48, middle, 24, theme.ink, 3)
    for radius in (6, 13):
        canvas.arc(42, middle, radius, 310, 50, theme.ink, 3)
    field = theme.theirs if theme.faces and theme.theirs != theme.bar else theme.ground
    canvas.rectangle(90, top + 18, 560, top + 90, field, 12 if theme.faces else 36)
    if not theme.faces:
        canvas.frame(90, top + 18, 560, top + 90, theme.rule, 36)
    canvas.ring(606, middle, 24, theme.ink, 3)
    canvas.circle(597, middle - 6, 3.5, theme.ink)
    canvas.circle(615, middle - 6, 3.5, theme.ink)
    canvas.arc(606, middle + 1, 12, 20, 160, theme.ink, 3)
    canvas.ring(672, middle, 24, theme.ink, 3)
    canvas.line([(660, middle), (684, middle)], theme.ink, 3)
    canvas.line([(672, middle - 12), (672, middle + 12)], theme.ink, 3)
    home_indicator(canvas, theme.ink)


def home_indicator(canvas: Canvas, ink: Color) -> None:
    """Draw the bar that a thumb swipes."""
    canvas.rectangle(240, canvas.height - 20, 480, canvas.height - 12, ink, 4)


def face(canvas: Canvas, left: float, top: float, size: float, person: int, radius: float = 10) -> None:
    """Draw the picture of a person: head and shoulders."""
    shade = rgb(_FACES[person % len(_FACES)])
    light: Color = (shade[0] // 3 + 170, shade[1] // 3 + 170, shade[2] // 3 + 170)
    canvas.rectangle(left, top, left + size, top + size, shade, radius)
    canvas.circle(left + size / 2, top + size * 0.39, size * 0.18, light)
    canvas.rectangle(left + size * 0.24, top + size * 0.62, left + size * 0.76, top + size * 0.86, light, size * 0.12)


class Chat:
    """Lays out messages one below the other; ``bottom`` is where the next would begin."""

    def __init__(self, canvas: Canvas, theme: Theme, top: float = 176) -> None:
        self._canvas = canvas
        self._theme = theme
        self.bottom = top

    def time(self, text: str) -> Chat:
        """Write when the following messages came."""
        self._canvas.text(WIDTH / 2, self.bottom + 22, text, 22, self._theme.faint, anchor="mm")
        self.bottom += 62
        return self

    def theirs(self, text: str, person: int = 0, name: str = "") -> Chat:
        """Add a message of another; in a group with the name above it."""
        left = 122 if self._theme.faces else 30
        if self._theme.faces:
            face(self._canvas, 24, self.bottom, 78, person)
        if name:
            self._canvas.text(left, self.bottom + 12, name, 22, self._theme.faint)
            self.bottom += 34
        lines = self._wrapped(text)
        width = self._bubble_width(lines)
        self._bubble(left, left + width, lines, self._theme.theirs, self._theme.theirs_ink, tail=-1)
        return self

    def mine(self, text: str, person: int = 7) -> Chat:
        """Add a message of the phone's owner."""
        right = 598 if self._theme.faces else 690
        if self._theme.faces:
            face(self._canvas, 618, self.bottom, 78, person)
        lines = self._wrapped(text)
        width = self._bubble_width(lines)
        self._bubble(right - width, right, lines, self._theme.mine, self._theme.mine_ink, tail=1)
        return self

    def photo(self, person: int = 0) -> Chat:
        """Add a picture that another sent: hills under a sun."""
        left, top = 122 if self._theme.faces else 30, self.bottom
        if self._theme.faces:
            face(self._canvas, 24, top, 78, person)
        right, bottom = left + 300, top + 200
        self._canvas.rectangle(left, top, right, bottom, rgb("BFE3F5"), 10)
        self._canvas.circle(left + 230, top + 52, 24, rgb("FFE08A"))
        hills = ((0.0, 200), (0.0, 130), (70, 80), (130, 120), (190, 92), (300, 150), (300, 200))
        meadow = ((0.0, 200), (0.0, 166), (110, 134), (220, 168), (300, 140), (300, 200))
        self._canvas.polygon([(left + x, top + y) for x, y in hills], rgb("7FB28C"))
        self._canvas.polygon([(left + x, top + y) for x, y in meadow], rgb("5E9A6B"))
        self.bottom = bottom + 30
        return self

    def voice(self, seconds: int, person: int = 0) -> Chat:
        """Add a voice message of another."""
        left, top = 122, self.bottom
        face(self._canvas, 24, top, 78, person)
        self._canvas.rectangle(left, top, left + 120 + seconds * 6, top + 78, self._theme.theirs, self._theme.radius)
        for radius in (5, 13, 21):
            self._canvas.arc(left + 24, top + 39, radius, 315, 45, self._theme.theirs_ink, 3.5)
        self._canvas.text(left + 64, top + 39, f"{seconds}″", 28, self._theme.theirs_ink)
        self.bottom = top + 108
        return self

    def _wrapped(self, text: str) -> list[str]:
        return self._canvas.wrap(text, _MESSAGE, 416 if self._theme.faces else 470)

    def _bubble_width(self, lines: list[str]) -> float:
        return max(self._canvas.measure(line, _MESSAGE) for line in lines) + 48

    def _bubble(self, left: float, right: float, lines: list[str], fill: Color, ink: Color, *, tail: int) -> None:
        top = self.bottom
        bottom = top + len(lines) * _LEADING + 33
        self._canvas.rectangle(left, top, right, bottom, fill, self._theme.radius)
        if self._theme.faces:
            edge = left if tail < 0 else right
            self._canvas.polygon([(edge, top + 28), (edge + tail * 11, top + 39), (edge, top + 50)], fill)
        for row, line in enumerate(lines):
            self._canvas.text(left + 24, top + 17 + _LEADING * (row + 0.5), line, _MESSAGE, ink)
        self.bottom = bottom + (30 if self._theme.faces else 20)
