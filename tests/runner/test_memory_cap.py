"""A cap on memory (F25): an engine that meets it costs its image a try, never the runner; the image ends as poison."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

from detectsched.demo.corpus import Exhibit
from detectsched.runner.daemon import runner_services
from detectsched.settings import Settings
from detectsched.task import TaskState
from tests.ocr import fake_child
from tests.story.test_life_of_an_image import submit
from tests.support.system import dispatching, opened, running

_CAP_BYTES: Final = 512 * 2**20
_TOO_MUCH: Final = b"grow:600"


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="util-linux is not installed")
async def test_an_engine_at_its_cap_ends_alone(settings: Settings) -> None:
    """The kernel refuses the engine more memory; other images are read before and after, by the same runner."""
    engine = ("prlimit", f"--as={_CAP_BYTES}", sys.executable, str(Path(fake_child.__file__)))
    exhibit = Exhibit("a page", b"", "image/png", ())
    async with dispatching(settings) as system, opened(settings) as own:
        services = runner_services(own.queue, own.ledger, own.blobs, settings, ("ocr",), engine_command=engine)
        async with running(services):
            tasks = [
                await submit(system, exhibit, device, data=data)
                for device, data in enumerate([b"say:before", _TOO_MUCH, b"say:after"])
            ]
            states = await system.wait_for_all([task.id for task in tasks])
            assert states == [TaskState.SUCCEEDED, TaskState.DEAD, TaskState.SUCCEEDED]
            view = await system.view(tasks[1].id)
            [record] = await system.queue.registry.workers()
    assert view.task.error_reason in {"poison", "engine_crashed", "out_of_memory"}
    assert record.pid == os.getpid()
