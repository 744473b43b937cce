"""The engine `pdf`: text from PDF files, page by page; a page that is only a picture is read by OCR.

Boxes are in points (1/72 inch) on one plane, each page below the one before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Final

import numpy as np
import pypdfium2 as pdfium

from detectsched.detection import Box, Line
from detectsched.engines.plugin import EngineContext, Reading
from detectsched.errors import PayloadRejected
from detectsched.ocr.engine import Engine, build_engine

MAX_PAGES: Final = 200
_SCAN_DPI: Final = 200
"""Enough for the smallest print that is read well, about 7 points."""
_POINTS_PER_INCH: Final = 72
_SAME_LINE: Final = 0.5
"""Two runs of characters belong to one line when they share this part of the lower one's height."""
_WIDEST_GAP: Final = 2.0
"""And when no more than this many heights lie between them; columns are further apart."""


class PdfEngine:
    """Reads PDF files; the OCR engine is loaded when a page needs it."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._ocr: Engine | None = None
        self.version = f"pypdfium2 {version('pypdfium2')}"

    def read(self, payload: bytes) -> Reading:
        """Return the lines of all pages.

        Raises:
            PayloadRejected: no PDF, a damaged or encrypted one, or one with too many pages.
        """
        document = _open(payload)
        try:
            if len(document) > MAX_PAGES:
                raise PayloadRejected(
                    "too_many_pages", f"the PDF has {len(document)} pages; at most {MAX_PAGES} are read"
                )
            lines: list[Line] = []
            width = height = 0
            for page in _pages(document):
                lines += (replace(line, box=_lowered(line.box, height)) for line in self._read_page(page))
                width, height = max(width, math.ceil(page.get_width())), height + math.ceil(page.get_height())
        finally:
            document.close()
        return Reading(tuple(lines), width, height)

    def _read_page(self, page: Any) -> list[Line]:
        lines = _printed_lines(page)
        return lines or self._scanned_lines(page)

    def _scanned_lines(self, page: Any) -> list[Line]:
        """Read a page without text by OCR, if anything is drawn on it."""
        if not any(True for _ in page.get_objects(max_depth=2)):
            return []
        points = page.get_width() * page.get_height()
        scale = min(_SCAN_DPI / _POINTS_PER_INCH, math.sqrt(self._context.max_pixels / max(points, 1)))
        image = np.ascontiguousarray(page.render(scale=scale).to_numpy()[:, :, :3])
        if self._ocr is None:
            self._ocr = build_engine(self._context.ocr, self._context.slots)
        return [
            replace(line, box=_scaled(line.box, 1 / scale))
            for line in self._ocr.read(np.ascontiguousarray(image[:, :, :3]))
        ]


def _open(payload: bytes) -> pdfium.PdfDocument:
    try:
        return pdfium.PdfDocument(payload)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower() or "security" in str(error).lower():
            raise PayloadRejected("encrypted_pdf", "the PDF is encrypted: send it without a password") from None
        raise PayloadRejected("undecodable_pdf", f"this cannot be read as a PDF: {error}") from None


def _pages(document: pdfium.PdfDocument) -> Iterator[Any]:
    for number in range(len(document)):
        try:
            page = document[number]
        except pdfium.PdfiumError as error:
            raise PayloadRejected("undecodable_pdf", f"page {number + 1} cannot be read: {error}") from None
        try:
            yield page
        finally:
            page.close()


def _printed_lines(page: Any) -> list[Line]:
    """Return the lines of a page's text layer, in the order of the file."""
    height = page.get_height()
    layer = page.get_textpage()
    try:
        runs = []
        for index in range(layer.count_rects()):
            left, bottom, right, top = layer.get_rect(index)
            text = " ".join(layer.get_text_bounded(left, bottom, right, top).replace("\0", "").split())
            if text:
                box = Box(math.floor(left), math.floor(height - top), math.ceil(right), math.ceil(height - bottom))
                runs.append(Line(_storable(text), box, 1.0))
    finally:
        layer.close()
    return _joined(runs)


def _joined(runs: list[Line]) -> list[Line]:
    """Join the runs that stand side by side: a change of font within a line ends a run."""
    lines: list[Line] = []
    for run in runs:
        if lines and _is_continued(lines[-1].box, run.box):
            before = lines[-1]
            gap = run.box.left - before.box.right
            glue = " " if gap > 0.15 * (run.box.bottom - run.box.top) else ""
            lines[-1] = Line(before.text + glue + run.text, _around(before.box, run.box), 1.0)
        else:
            lines.append(run)
    return lines


def _is_continued(line: Box, run: Box) -> bool:
    height = min(line.bottom - line.top, run.bottom - run.top)
    shared = min(line.bottom, run.bottom) - max(line.top, run.top)
    gap = run.left - line.right
    return shared >= _SAME_LINE * height and -height <= gap <= _WIDEST_GAP * height


def _around(one: Box, other: Box) -> Box:
    return Box(
        min(one.left, other.left), min(one.top, other.top), max(one.right, other.right), max(one.bottom, other.bottom)
    )


def _lowered(box: Box, by: int) -> Box:
    return Box(box.left, box.top + by, box.right, box.bottom + by)


def _scaled(box: Box, factor: float) -> Box:
    return Box(round(box.left * factor), round(box.top * factor), round(box.right * factor), round(box.bottom * factor))


def _storable(text: str) -> str:
    """Return a text without halves of surrogate pairs, which broken fonts yield."""
    return text.encode(errors="replace").decode()
