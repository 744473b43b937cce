"""An engine for detectsched: the cells of a table, one line each, with their column and row as the place."""

from __future__ import annotations

import csv
import io

from detectsched.detection import Box, Line
from detectsched.engines.plugin import EngineContext, Reading
from detectsched.errors import PayloadRejected


class CsvEngine:
    """Reads comma-separated values in UTF-8."""

    version = "1.0"

    def __init__(self, context: EngineContext) -> None:
        # Load models here: it is done once per process. ConfigurationError says what is missing.
        pass

    def read(self, payload: bytes) -> Reading:
        """Return every cell that is not empty."""
        try:
            rows = list(csv.reader(io.StringIO(payload.decode("utf-8-sig"), newline=""), strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            # For good: the same payload would fail again. Any other exception is tried again later.
            raise PayloadRejected("undecodable_csv", f"this cannot be read as CSV: {error}") from None
        lines = tuple(
            Line(" ".join(cell.split()), Box(column, number, column + 1, number + 1), 1.0)
            for number, row in enumerate(rows)
            for column, cell in enumerate(row)
            if cell.strip()
        )
        return Reading(lines, max(map(len, rows), default=0), len(rows))
