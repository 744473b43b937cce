"""Wrong clocks (F21, F22): nothing that several processes must agree on is decided by the wall clock of one of them.

Scripts go by Redis TIME, rows by PostgreSQL's now(), durations by the monotonic clock. Whoever needs the wall clock
says here what for. Processes with wrong clocks run in tests/processes/test_wrong_clocks.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).parents[1] / "src" / "detectsched"

ALLOWED: Final = {
    "api/encrypted.py": "the times inside an encrypted request, compared with a leeway",
    "api/intake.py": "refuses a not_before more than days ahead; when it is due, Redis says",
    "api/reports.py": "the end of a report that names none",
    "api/routes/detections.py": "refuses reports of devices from the far past or the future",
    "api/submission.py": "the day in the name of a blob",
    "bench": "measures; decides nothing",
    "cli/keys.py": "a date that the operator gives as days from now",
    "cli/report.py": "the span of a report that names none",
    "clock.py": "the one source",
    "db/api_keys.py": "notes when a key was revoked; whether it has expired, PostgreSQL says",
    "db/command_policies.py": "notes when a policy was changed",
    "db/encryption_keys.py": "notes when a key was made and retired",
    "demo": "shows; decides nothing",
    "dispatcher/relay.py": "the timestamp that a signature covers, and a Retry-After that is a date: bounded waits",
    "dispatcher/watermark.py": "a timestamp for people",
    "matching/rules/cards.py": "a birthday in an identity number is not in the future",
    "queueing/registry.py": "a timestamp for people; who is alive, the life of his record says, which Redis keeps",
    "runner/heartbeat.py": "a timestamp for people",
    "simulate": "has a clock of its own",
}
"""Files and packages that read the wall clock: what for."""

_WALL: Final = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"), ("date", "today")}


def wall_clock_uses(path: Path) -> Iterator[str]:
    """Yield how a file reads the wall clock."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
                if (owner, name) in _WALL:
                    yield f"{owner}.{name}"
            case ast.ImportFrom(module="time", names=names):
                yield from (f"time.{one.name}" for one in names if ("time", one.name) in _WALL)
            case ast.ImportFrom(module="detectsched.clock", names=names):
                yield from (one.name for one in names if one.name == "utc_now")


def test_nobody_else_reads_the_wall_clock() -> None:
    """A new use needs a reason; one that is gone takes its reason with it."""
    found: dict[str, list[str]] = {}
    for path in sorted(_SOURCE.rglob("*.py")):
        name = path.relative_to(_SOURCE).as_posix()
        uses = list(wall_clock_uses(path))
        if uses:
            place = name if name in ALLOWED else name.partition("/")[0]
            found.setdefault(place, []).extend(f"{name}: {use}" for use in uses)
    unexplained = {place: uses for place, uses in found.items() if place not in ALLOWED}
    assert not unexplained
    assert set(ALLOWED) - set(found) - {"bench", "demo", "simulate"} == set()


def test_each_way_to_read_it_is_seen(tmp_path: Path) -> None:
    """The search itself finds what it is to find."""
    source = tmp_path / "source.py"
    source.write_text(
        "import time\nimport datetime\nfrom datetime import date\nfrom time import time_ns\n"
        "from detectsched.clock import monotonic, utc_now\n"
        "time.time()\ndatetime.datetime.now()\ndate.today()\ntime.monotonic()\n"
    )
    assert sorted(wall_clock_uses(source)) == ["date.today", "datetime.now", "time.time", "time.time_ns", "utc_now"]
