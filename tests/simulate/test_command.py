"""``detectsched simulate`` from options to reports."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import redis.asyncio
from typer.testing import CliRunner

from detectsched.cli.main import app
from detectsched.cli.simulate import Generator, SimulatedPolicyName
from detectsched.embedded.servers import EmbeddedValkey
from detectsched.errors import ConfigurationError, InvalidRequest, StoreUnavailable
from detectsched.settings import Settings
from detectsched.simulate.capacity import Probe, find_runners
from detectsched.simulate.command import SimulateOptions, run_simulate
from detectsched.simulate.generators import GENERATORS
from detectsched.simulate.report import seconds_text
from detectsched.simulate.run import SimulatedPolicy
from detectsched.simulate.workload import DeviceClass, Lane, Poisson, RunnerClass, Workload

SMALL = """
title = "a flood & some <quiet> ones"
hours = 0.01
[lanes.text]
seconds_per_cost = 0.05
noise = 0.3
[[runners]]
slots = { text = 2 }
[[classes]]
name = "flood"
arrivals = { kind = "at_once", tasks = 100 }
[[classes]]
name = "quiet"
devices = 10
arrivals = { kind = "at_random", until_seconds = 2 }
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Give a workload file."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def options(small: Path, server: EmbeddedValkey, **fields: object) -> SimulateOptions:
    """Return options for that file on this process's server."""
    return SimulateOptions(workload=small, redis_url=server.url, **fields)  # type: ignore[arg-type]


async def test_json_is_the_same_for_the_same_seed(
    small: Path, redis_server: EmbeddedValkey, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output is the document alone, policies side by side, and nothing of the run is left on the server."""
    documents = []
    async with redis.asyncio.from_url(redis_server.url) as client:
        before = await client.dbsize()
        for _ in range(2):
            assert await run_simulate(options(small, redis_server, as_json=True, seed=7)) == 0
            documents.append(capsys.readouterr().out)
        assert await client.dbsize() == before
    assert documents[0] == documents[1]
    document = json.loads(documents[0])
    assert [one["policy"] for one in document["policies"]] == ["fair", "aging", "fifo"]
    assert document["aging_formula"] == "score = min(wait, 600 s) × 1"
    fair, _, fifo = document["policies"]
    assert fair["total"]["done"] == 110
    assert fair["classes"][1]["wait"]["p99"] < fifo["classes"][1]["wait"]["p99"] / 5


async def test_reports_are_well_formed(
    small: Path, redis_server: EmbeddedValkey, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The SVG has a panel for each policy and a curve for each class in it; the page holds the same and the tables."""
    both = (SimulatedPolicy.FAIR, SimulatedPolicy.ORIGINAL)
    svg, page = tmp_path / "out.svg", tmp_path / "out.html"
    await run_simulate(options(small, redis_server, policies=both, report=str(svg)))
    table = capsys.readouterr().out
    assert "quiet" in table
    assert "original" in table
    drawing = ET.fromstring(svg.read_text())  # noqa: S314 - our own text
    curves = [path for path in drawing.iter("{http://www.w3.org/2000/svg}path") if " H" in path.attrib["d"]]
    assert len(curves) == 2 * 2 * 2  # policies × panels × classes
    assert all("nan" not in path.attrib["d"] for path in curves)
    words = " ".join(filter(None, (text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text"))))
    assert "a flood & some <quiet> ones" in words
    await run_simulate(options(small, redis_server, policies=both, report=str(page)))
    capsys.readouterr()
    await run_simulate(options(small, redis_server, policies=both, report="-"))
    html = capsys.readouterr().out
    assert html == page.read_text()
    assert "<svg" in html
    assert "<td>quiet</td>" in html
    assert "a flood &amp; some &lt;quiet&gt; ones" in html


@pytest.mark.parametrize("report", ["out.png", "no/such/directory/out.svg"])
async def test_a_report_that_could_not_be_written_is_refused_first(small: Path, report: str) -> None:
    """Not after minutes of simulation."""
    with pytest.raises(ConfigurationError, match="--report"):
        await run_simulate(SimulateOptions(workload=small, report=report, redis_url="redis://127.0.0.1:1/0"))


async def test_a_server_that_is_away_is_named(small: Path) -> None:
    """One sentence, not a group of stack traces."""
    with pytest.raises(StoreUnavailable):
        await run_simulate(SimulateOptions(workload=small, redis_url="redis://127.0.0.1:1/0"))


async def test_the_least_number_of_runners_is_found(redis_server: EmbeddedValkey) -> None:
    """Its p99 wait is within the target and that of one runner less is not."""
    workload = Workload(
        name="test",
        hours=0.05,
        lanes={"text": Lane(seconds_per_cost=1.0, noise=0.2)},
        runners=(RunnerClass(slots={"text": 1}),),
        classes=(DeviceClass(name="all", devices=50, arrivals=Poisson(per_hour=360)),),
    )
    tried: list[Probe] = []

    async def find(target: float) -> int:
        found, _ = await find_runners(
            workload,
            SimulatedPolicy.FAIR,
            target_p99_seconds=target,
            settings=Settings(),
            url=redis_server.url,
            seed=1,
            tried=tried.append,
        )
        return found

    enough = await find(2.0)
    answers = {probe.runners: probe.enough for probe in tried}
    assert answers[enough]
    assert not answers[enough - 1]
    assert 5 <= enough <= 9  # five are busy all the time


async def test_a_target_that_no_number_meets_is_refused(
    small: Path, redis_server: EmbeddedValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rather than doubling for ever."""
    monkeypatch.setattr("detectsched.simulate.capacity.MOST_RUNNERS", 4)
    with pytest.raises(InvalidRequest, match="not even 4 runners"):
        await run_simulate(options(small, redis_server, target_p99=0.001))


def test_every_choice_on_the_command_line_exists() -> None:
    """The names that --generator and --policy offer are those that there are."""
    assert [one.value for one in Generator] == list(GENERATORS)
    assert [one.value for one in SimulatedPolicyName] == [one.value for one in SimulatedPolicy]


def test_wrong_options_are_answered_in_words() -> None:
    """A usage error, before anything is started."""
    for arguments in (["--runners", "0"], ["--hours", "-1"], ["--policy", "lottery"], ["--generator", "x"]):
        result = CliRunner().invoke(app, ["simulate", *arguments])
        assert result.exit_code == 2, result.output


def test_times_are_written_for_people() -> None:
    """From milliseconds to hours."""
    texts = [seconds_text(seconds) for seconds in (0.0049, 0.9999, 12.44, 599, 3600, 5400, -0.12)]
    assert texts == ["4.9 ms", "1.0 s", "12.4 s", "599.0 s", "1 h 00 min", "1 h 30 min", "−120.0 ms"]
