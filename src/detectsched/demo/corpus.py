"""The demo's word list, and its images and texts with the words that are planted in them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from detectsched.demo.images import SCREENS
from detectsched.demo.phrases import FILLERS, NEAR_MISSES, PLAIN, PLANTED
from detectsched.wordlist import Word

DEMO_WORDS: Final = (
    Word("刷单返利", "fraud", 3),
    Word("代开发票", "fraud", 2),
    Word("安全账户", "fraud", 3),
    Word("套现", "fraud", 2),
    Word("gift card code", "fraud", 2),
    Word("VX", "fraud", 1),
    Word("网络博彩", "gambling", 3),
    Word("百家乐", "gambling", 2),
    Word("下注", "gambling", 1),
    Word("online casino", "gambling", 2),
    Word("内部机密", "leak", 3),
    Word("客户名单", "leak", 2),
    Word("身份证号", "leak", 2),
    Word("confidential", "leak", 2),
    Word("customer database", "leak", 3),
    Word("冰毒", "contraband", 3),
    Word("ketamine", "contraband", 3),
    Word("枪支", "contraband", 3),
    Word("弹药", "contraband", 3),
    Word("ass", "abuse", 1),
)
"""The list that the demo publishes: harmless in themselves, and of the kinds that operators look for."""

_MEDIA_TYPES: Final = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}


@dataclass(frozen=True, slots=True)
class Exhibit:
    """An image as a device sends it; ``planted`` are the words to be found, one for each place, in no order."""

    name: str
    data: bytes
    media_type: str
    planted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextExhibit:
    """A text as a device sends it; ``planted`` are the words to be found, one for each place, in reading order."""

    text: str
    planted: tuple[str, ...]


def images() -> tuple[Exhibit, ...]:
    """Draw the demo's images; the same bytes at each call.

    Raises:
        ConfigurationError: the font of the ``demo`` extra is not installed.

    """
    return tuple(
        Exhibit(
            f"{screen.name}.{screen.format.lower()}",
            screen.draw(screen.format),
            _MEDIA_TYPES[screen.format],
            screen.planted,
        )
        for screen in SCREENS
    )


def texts(count: int, seed: int = 1) -> tuple[TextExhibit, ...]:
    """Return ``count`` texts, of which a tenth (rounded up) holds planted words; the same for the same ``seed``."""
    pick = random.Random(seed)  # noqa: S311 - reproducible, not secret
    planted = set(pick.sample(range(count), -(-count // 10)))
    return tuple(_planted(pick) if index in planted else _clean(pick) for index in range(count))


def _planted(pick: random.Random) -> TextExhibit:
    phrase, words = pick.choice(PLANTED)
    return TextExhibit(_filled(phrase, pick), words)


def _clean(pick: random.Random) -> TextExhibit:
    return TextExhibit(_filled(pick.choice(NEAR_MISSES if pick.random() < 0.2 else PLAIN), pick), ())


def _filled(phrase: str, pick: random.Random) -> str:
    return phrase.format(**{name: pick.choice(choices) for name, choices in FILLERS.items()})
