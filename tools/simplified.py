"""Makes ``matching/data/simplified.txt``: which traditional character is folded to which simplified one.

``python -m tools.simplified`` writes it from OpenCC's character table; ``--check`` says whether it is what OpenCC says.
It is kept in the source because a program that matches needs 40 kB of OpenCC's 7 MB.
"""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path
from typing import Final

import opencc

import detectsched.matching

TARGET: Final = Path(detectsched.matching.__file__).parent / "data" / "simplified.txt"

_HEAD: Final = """\
# Made by tools/simplified.py from the dictionaries of OpenCC (https://github.com/BYVoid/OpenCC, Apache License 2.0).
# Each line: a traditional character, and the simplified character that it is folded to.
"""
_HAN: Final = (range(0x3400, 0xA000), range(0x20000, 0x32000))


def table() -> str:
    """Return the file's content."""
    han = [
        character
        for block in _HAN
        for character in map(chr, block)
        if unicodedata.category(character) == "Lo" and unicodedata.normalize("NFKC", character) == character
    ]
    # On lines of their own, so that no phrase is seen.
    simplified = opencc.OpenCC("t2s").convert("\n".join(han)).split("\n")
    found = {one: other for one, other in zip(han, simplified, strict=True) if one != other and len(other) == 1}
    # 薴 → 苧 → 苎: what is folded stays as it is when it is folded again.
    settled = {one: found.get(other, other) for one, other in found.items()}
    return _HEAD + "".join(f"{one}{other}\n" for one, other in settled.items())


def main(arguments: list[str]) -> int:
    """Write the file, or compare it; return the exit status."""
    wanted = table()
    if "--check" in arguments:
        if TARGET.read_text("utf-8") == wanted:
            return 0
        print("simplified.txt is not what OpenCC says: run python -m tools.simplified")
        return 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(wanted, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
