"""The demo's images: files such as phones send, the same at each run, with nothing in them that is not listed."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from detectsched.demo import canvas
from detectsched.demo.corpus import DEMO_WORDS, Exhibit, images
from detectsched.demo.images import SCREENS
from detectsched.errors import ConfigurationError


@pytest.fixture(scope="module")
def exhibits() -> tuple[Exhibit, ...]:
    """Return the images, drawn once."""
    return images()


def opened(exhibit: Exhibit) -> Image.Image:
    """Return the decoded image."""
    image = Image.open(io.BytesIO(exhibit.data))
    image.load()
    return image


def test_each_is_a_small_file_of_the_format_it_says(exhibits: tuple[Exhibit, ...]) -> None:
    """Formats are mixed, names are unique, and a slow link carries each file at once."""
    assert len({exhibit.name for exhibit in exhibits}) == len(exhibits) == 12
    for exhibit in exhibits:
        image = opened(exhibit)
        assert Image.MIME[str(image.format)] == exhibit.media_type, exhibit.name
        assert exhibit.name.endswith(f".{str(image.format).lower()}")
        assert len(exhibit.data) < 300_000, exhibit.name
    assert {exhibit.media_type for exhibit in exhibits} == {"image/png", "image/jpeg", "image/webp"}


def test_sizes_are_those_of_phones(exhibits: tuple[Exhibit, ...]) -> None:
    """All are one screen, but for one long screenshot."""
    sizes = {exhibit.name: opened(exhibit).size for exhibit in exhibits}
    width, height = sizes.pop("chat-long.jpeg")
    assert width == 1080
    assert 3600 <= height <= 4000
    assert set(sizes.values()) == {(720, 1560), (828, 1794)}


def test_the_same_bytes_at_each_run(exhibits: tuple[Exhibit, ...]) -> None:
    """A second run of the demo meets the cache of read images."""
    assert images() == exhibits


def test_planted_words_are_words_of_the_list(exhibits: tuple[Exhibit, ...]) -> None:
    """Spelt as the list spells them; some images are clean."""
    words = {word.text for word in DEMO_WORDS}
    assert {word for exhibit in exhibits for word in exhibit.planted} <= words
    assert [exhibit.name for exhibit in exhibits if not exhibit.planted] == [
        "clean-family.png",
        "clean-order.jpeg",
        "clean-notes.webp",
    ]


def test_no_font_is_said_in_so_many_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lacks the extra reads which one."""
    monkeypatch.setattr(canvas, "_FONT_PACKAGE", "no_such_font_package")
    canvas._font.cache_clear()
    with pytest.raises(ConfigurationError, match=r"detectsched\[demo\]"):
        SCREENS[0].draw("PNG")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("一二三四五六", ["一二三四", "五六"]),
        ("一二三四，五", ["一二三", "四，五"]),
        ("ab cd ef", ["ab cd ef"]),
        ("一二 abcdef", ["一二", "abcdef"]),
        ("一\n二", ["一", "二"]),
        ("", [""]),
    ],
)
def test_lines_break_where_a_phone_breaks_them(text: str, lines: list[str]) -> None:
    """Anywhere in Chinese but before punctuation, between words in English."""
    assert canvas.Canvas(10, 10, (0, 0, 0)).wrap(text, 20, 85) == lines
