"""The engine `pdf`, on files that are written here."""

from __future__ import annotations

import io

import pypdfium2 as pdfium
import pytest
from PIL import Image, ImageDraw, ImageFont

from detectsched.detection import Box
from detectsched.engines.pdf import MAX_PAGES, PdfEngine
from detectsched.engines.plugin import EngineContext
from detectsched.errors import PayloadRejected
from detectsched.settings import OcrSettings

Text = tuple[int, int, str]


@pytest.fixture
def engine() -> PdfEngine:
    """Give an engine."""
    return PdfEngine(EngineContext(1, 50_000_000, OcrSettings()))


def written(*pages: list[Text]) -> bytes:
    """Return a PDF with pages of 300 × 200 points; each text begins at (x, y), from the lower left, 12 points high."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, texts in enumerate(pages):
        content = "\n".join(f"BT /F1 12 Tf {x} {y} Td ({text}) Tj ET" for x, y, text in texts)
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {5 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    body, offsets = "%PDF-1.4\n", []
    for number, source in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{source}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF"
    return f"{body}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode()


def test_the_text_layer_is_read_line_by_line(engine: PdfEngine) -> None:
    """Runs that stand side by side are one line; columns are not; pages lie one below the other."""
    data = written(
        [(20, 150, "Send the"), (75, 150, "gift card"), (220, 150, "column"), (20, 120, "next")], [(20, 50, "end")]
    )
    reading = engine.read(data)
    assert [line.text for line in reading.lines] == ["Send the gift card", "column", "next", "end"]
    assert (reading.width, reading.height) == (300, 400)
    first, last = reading.lines[0].box, reading.lines[-1].box
    assert (abs(first.left - 20) <= 2, first.top >= 36, first.bottom <= 55) == (True, True, True)
    assert 200 + 130 <= last.top < last.bottom <= 200 + 155


@pytest.mark.ocr
def test_a_page_that_is_a_picture_is_read_by_ocr(engine: PdfEngine) -> None:
    """Its boxes are in points, below the page before."""
    picture = Image.new("RGB", (800, 400), "white")
    ImageDraw.Draw(picture).text((50, 100), "gift card code", font=ImageFont.load_default(40), fill="black")
    file = io.BytesIO()
    picture.save(file, "PDF")
    scan, both = pdfium.PdfDocument(file.getvalue()), pdfium.PdfDocument(written([(20, 150, "cover")]))
    both.import_pages(scan)
    merged = io.BytesIO()
    both.save(merged)
    reading = engine.read(merged.getvalue())
    assert [line.text for line in reading.lines] == ["cover", "gift card code"]
    box = reading.lines[1].box
    assert Box(0, 250, 100, 320).left <= box.left <= 60
    assert 280 <= box.top < box.bottom <= 370


def test_an_empty_page_has_no_lines(engine: PdfEngine) -> None:
    """And needs no OCR."""
    assert engine.read(written([])).lines == ()


@pytest.mark.parametrize("cut", [0, 5, 100, 400])
def test_what_is_no_whole_pdf_is_rejected(engine: PdfEngine, cut: int) -> None:
    """With a reason, and without hurting the process."""
    with pytest.raises(PayloadRejected) as caught:
        engine.read(written([(20, 150, "cover")])[:cut])
    assert caught.value.reason == "undecodable_pdf"


def test_too_many_pages_are_refused(engine: PdfEngine) -> None:
    """Before any of them is read."""
    with pytest.raises(PayloadRejected) as caught:
        engine.read(written(*([(20, 150, "x")] for _ in range(MAX_PAGES + 1))))
    assert caught.value.reason == "too_many_pages"
