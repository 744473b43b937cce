"""Writes docs/images/demo.webp: the demo's screenshots, with a frame around every line in which a word was found.

The frames are what the OCR engine and the matcher of this code found, not a drawing of what they should find: run
``python -m tools.contact_sheet`` again when either of them, or a screenshot, has changed.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw

from detectsched.demo.corpus import DEMO_WORDS, Exhibit, images
from detectsched.detection import Box, EngineResult, ListVersion
from detectsched.matching.matcher import Matcher
from detectsched.ocr.decode import decode
from detectsched.ocr.engine import Engine, build_engine
from detectsched.settings import OcrSettings
from detectsched.wordlist import ListContent

TARGET: Final = Path(__file__).resolve().parents[1] / "docs" / "images" / "demo.webp"
MOST_BYTES: Final = 200_000

COLUMNS: Final = 6
TILE: Final = (264, 572)
"""A phone's screen; of a longer screenshot the beginning is shown."""
GAP: Final = 14
CORNER: Final = 18
BACKGROUND: Final = (120, 126, 138)
"""A grey that goes with light and with dark pages."""
FRAME: Final = (232, 38, 76)


def main() -> None:
    """Read, find, draw and write; exit with a message where the demo's planted words are not what was found."""
    engine = build_engine(OcrSettings(), ocr_slots=1)
    matcher = Matcher({ListVersion("demo", 1): ListContent(DEMO_WORDS)})
    exhibits = images()
    tiles = [_tile(exhibit, _boxes(exhibit, engine, matcher)) for exhibit in exhibits]
    _sheet(tiles).save(TARGET, quality=80, method=6)
    size = TARGET.stat().st_size
    print(f"{TARGET}: {len(exhibits)} screenshots, {size} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"more than {MOST_BYTES} bytes: lower the quality or the size of a tile")


def _boxes(exhibit: Exhibit, engine: Engine, matcher: Matcher) -> list[Box]:
    image = decode(exhibit.data, max_pixels=40_000_000)
    height, width = image.shape[:2]
    read = EngineResult(engine.name, engine.version, engine.read(image), width, height, 0.0)
    hits = matcher.match(read.joined()).hits
    if sorted(hit.word for hit in hits) != sorted(exhibit.planted):
        raise SystemExit(f"{exhibit.name}: planted {exhibit.planted}, found {[hit.word for hit in hits]}")
    return [hit.box for hit in hits if hit.box is not None]


def _tile(exhibit: Exhibit, boxes: list[Box]) -> Image.Image:
    """Return a screenshot at the width of a tile, with frames and round corners; transparent where it is too short."""
    screen = Image.open(io.BytesIO(exhibit.data)).convert("RGB")
    width, height = TILE
    scale = width / screen.width
    screen = screen.resize((width, round(screen.height * scale)), Image.Resampling.LANCZOS)
    pen = ImageDraw.Draw(screen)
    for box in boxes:
        corners = (box.left * scale - 5, box.top * scale - 4, box.right * scale + 4, box.bottom * scale + 4)
        pen.rounded_rectangle(corners, radius=6, outline=FRAME, width=3)
    tile = Image.new("RGBA", TILE)
    mask = Image.new("L", TILE)
    ImageDraw.Draw(mask).rounded_rectangle((0, 0, width - 1, min(height, screen.height) - 1), CORNER, fill=255)
    tile.paste(screen.crop((0, 0, width, height)), mask=mask)
    return tile


def _sheet(tiles: list[Image.Image]) -> Image.Image:
    rows = -(-len(tiles) // COLUMNS)
    width, height = TILE
    sheet = Image.new("RGB", (COLUMNS * (width + GAP) + GAP, rows * (height + GAP) + GAP), BACKGROUND)
    for place, tile in enumerate(tiles):
        row, column = divmod(place, COLUMNS)
        sheet.paste(tile, (GAP + column * (width + GAP), GAP + row * (height + GAP)), tile)
    return sheet


if __name__ == "__main__":
    main()
