"""``detectsched report``: what ended and what was found, from the statistics; and whether they are right."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from detectsched.cli.output import Shown, table
from detectsched.cli.remote import Api, remote
from detectsched.errors import InvalidRequest

app = typer.Typer(no_args_is_help=True, help="Reports: tasks, words, recount.", rich_markup_mode=None)

By = Annotated[str, typer.Option(help="hour, day or total.")]
Since = Annotated[str | None, typer.Option(help="From then, as 2026-12-24T08:00:00Z.")]
Until = Annotated[str | None, typer.Option(help="Until then.")]
Zone = Annotated[str, typer.Option(help="Time zone of days, as Asia/Shanghai.")]
Lane = Annotated[str | None, typer.Option(help="Only this lane.")]
Order = Annotated[str, typer.Option(help="time, tasks or hits.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="Most rows to show.")]

_WAIT = ("wait_p50", "wait_p95", "wait_p99", "run_p50", "run_p95", "run_p99")


@app.command()
@remote
async def tasks(
    api: Api,
    by: By = "hour",
    group: Annotated[list[str] | None, typer.Option(help="mac, lane or state; several times for several.")] = None,
    since: Since = None,
    until: Until = None,
    zone: Zone = "UTC",
    mac: Annotated[str | None, typer.Option(help="Only this device.")] = None,
    lane: Lane = None,
    state: Annotated[str | None, typer.Option(help="Only tasks that ended so, or reported.")] = None,
    order: Order = "time",
    limit: Limit = 1000,
) -> Shown:
    """Count what ended, with quantiles of waits and run times in seconds."""
    names = group or []
    answer = await api.get(
        "/api/reports/tasks",
        by=by,
        group=names,
        since=since,
        until=until,
        zone=zone,
        mac=mac,
        lane=lane,
        state=state,
        order=order,
        limit=limit,
    )
    return _shown(answer, by, [*names, "tasks", "with_hits", "hits", *_WAIT])


@app.command()
@remote
async def words(
    api: Api,
    by: By = "total",
    group: Annotated[list[str] | None, typer.Option(help="category, word or lane; several times for several.")] = None,
    since: Since = None,
    until: Until = None,
    zone: Zone = "UTC",
    category: Annotated[str | None, typer.Option(help="Only this category.")] = None,
    word: Annotated[str | None, typer.Option(help="Only this word.")] = None,
    lane: Lane = None,
    order: Order = "hits",
    limit: Limit = 20,
) -> Shown:
    """Count what was found, the most frequent first."""
    names = ["category", "word"] if group is None else group
    answer = await api.get(
        "/api/reports/words",
        by=by,
        group=names,
        since=since,
        until=until,
        zone=zone,
        category=category,
        word=word,
        lane=lane,
        order=order,
        limit=limit,
    )
    return _shown(answer, by, [*names, "tasks", "hits"])


@app.command()
def recount(
    since: Annotated[str | None, typer.Option(help="First day, as 2026-12-24; without it seven days ago.")] = None,
    until: Annotated[str | None, typer.Option(help="Last day; without it today.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what is wrong.")] = False,
) -> None:
    """Count again from the tasks themselves, day by day, and compare with the statistics; exit status 1 if they differ.

    Works on the ledger (DETECTSCHED_POSTGRES_URL), not over HTTP. A day without differences is right at this moment,
    whatever is being written. Days of which tasks were removed, or sums forgotten, cannot be counted again.
    """
    import asyncio

    from detectsched.clock import utc_now
    from detectsched.settings import load_settings

    settings = load_settings()
    today = utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    first, last = _day(since) or today - timedelta(days=7), _day(until) or today
    oldest = today - timedelta(days=settings.reports.keep_detail_days - 1)
    if first < oldest:
        raise InvalidRequest(f"sums are kept since {oldest:%Y-%m-%d}: what is older cannot be compared", field="since")
    if asyncio.run(_recount(settings, first, last, mend=repair)):
        raise typer.Exit(1)


async def _recount(settings: Any, first: datetime, last: datetime, *, mend: bool) -> bool:
    """Compare every day; return whether something is wrong and stays so."""
    from detectsched.db import recount as counting
    from detectsched.db.connection import Ledger

    ledger = Ledger(settings.postgres)
    is_wrong = False
    try:
        day = first
        while day <= last:
            following = day + timedelta(days=1)
            found = await counting.compare(ledger, day, following, show=5)
            words = "right" if not found.different else f"{found.different} rows differ"
            if found.hours_removed:
                words += f"; {found.hours_removed} hours of tenants cannot be counted again: tasks were removed"
            typer.echo(f"{day:%Y-%m-%d}  {words}")
            for difference in found.differences:
                typer.echo(f"  {difference.table}: stored {difference.stored}, counted {difference.counted}")
            if found.different and mend:
                await counting.repair(ledger, day, following)
                typer.echo("  mended")
            is_wrong |= bool(found.different) and not mend
            day = following
    finally:
        await ledger.close()
    return is_wrong


def _day(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidRequest(f"{text!r} is no day: write 2026-12-24") from None


def _shown(answer: dict[str, Any], by: str, columns: list[str]) -> Shown:
    time = {"hour": ["at"], "day": ["day"]}.get(by, [])
    names = [*time, *columns]
    rows = [[row[name] for name in names] for row in answer["items"]]
    lines = table([name.upper() for name in names], rows)
    if answer["next_cursor"] is not None:
        lines.append("there are more: give a higher --limit, or a shorter time")
    return Shown(answer, lines)
