"""Failpoints: off by default, spelt right, each in the source where it says, and each action as it says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.stimuli import OWNERS
from detectsched import failpoints
from detectsched.errors import ConfigurationError

SOURCE = Path(failpoints.__file__).parent


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """Leave nothing armed."""
    yield
    failpoints.arm("")


def test_every_name_stands_in_the_source_once() -> None:
    """A failpoint that nobody passes proves nothing."""
    places = [
        name
        for path in SOURCE.rglob("*.py")
        for name in re.findall(r"failpoints\.hit\(\"([a-z_.]+)\"\)", path.read_text(encoding="utf-8"))
    ]
    assert sorted(places) == sorted(failpoints.NAMES)
    families = {name.partition(".")[0] for name in failpoints.NAMES}
    assert families == OWNERS.keys()


def test_nothing_happens_unless_it_is_armed() -> None:
    """And an empty setting arms nothing."""
    for _ in range(2):
        for name in failpoints.NAMES:
            failpoints.hit(name)
        failpoints.arm("")


@pytest.mark.parametrize(
    "spec", ["run.after_claim", "run.after_lunch=exit", "run.after_claim=hang", "run.after_claim=exit@0", ","]
)
def test_what_is_no_failpoint_is_refused(spec: str) -> None:
    """With the names that there are."""
    with pytest.raises(ConfigurationError, match="rebuild"):
        failpoints.arm(spec)


def test_it_happens_at_the_pass_that_was_named_and_once(capfd: pytest.CaptureFixture[str]) -> None:
    """Other failpoints stay armed."""
    failpoints.arm("run.after_claim=raise@2, run.before_ack=hang:0.001")
    failpoints.hit("run.after_claim")
    with pytest.raises(failpoints.FailpointRaised):
        failpoints.hit("run.after_claim")
    failpoints.hit("run.after_claim")
    failpoints.hit("run.before_ack")
    failpoints.hit("run.before_ack")
    assert capfd.readouterr().err.count('"event": "failpoint"') == 2


def test_a_process_that_shall_die_does_so_at_once() -> None:
    """Without a word to anybody, like kill -9."""
    program = (
        "import atexit; from detectsched import failpoints; atexit.register(print, 'said goodbye')\n"
        "failpoints.arm('run.after_claim=exit'); failpoints.hit('run.after_claim'); print('went on')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (137, "")
    assert "failpoint" in ended.stderr
