"""The report as one HTML page that needs nothing else: tables and charts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from io import StringIO

from rich.console import Console
from rich.table import Table

from detectsched.settings import SchedulerSettings
from detectsched.simulate.chart import comparison_svg
from detectsched.simulate.report import tables
from detectsched.simulate.run import Comparison

_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem }
svg { max-width: 100%; height: auto }
table { border-collapse: collapse; margin: 1rem 0 } caption { text-align: left; font-weight: 600; padding: .3rem 0 }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #8884; text-align: right; white-space: nowrap }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left }
"""


def comparison_html(comparison: Comparison, settings: SchedulerSettings) -> str:
    """Return the page."""
    name = escape(comparison.workload.title or comparison.workload.name)
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">',
            f'<meta name="viewport" content="width=device-width">\n<title>{name}</title>\n<style>{_STYLE}</style>',
            f"<h1>{name}</h1>",
            comparison_svg(comparison),
            *_body(comparison, settings),
            "</html>\n",
        ]
    )


def _body(comparison: Comparison, settings: SchedulerSettings) -> Iterator[str]:
    # The first line is the title, which the page has already.
    for part in list(tables(comparison, settings))[1:]:
        yield _table(part) if isinstance(part, Table) else f"<p>{escape(part)}</p>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(str(column.header))}</th>" for column in table.columns)
    cells = zip(*([escape(_plain(cell)) for cell in column.cells] for column in table.columns), strict=True)
    rows = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells)
    return f"<table><caption>{escape(str(table.title))}</caption>\n<tr>{head}</tr>\n{rows}\n</table>"


def _plain(cell: object) -> str:
    if isinstance(cell, str):
        return cell
    console = Console(file=StringIO(), width=200)
    with console.capture() as captured:
        console.print(cell, end="")
    return captured.get()
