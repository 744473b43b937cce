"""The life of an object's tasks: texts and payloads for engines, one at a time and in order."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest

from detectsched.db.accept import NewTask
from detectsched.db.word_lists import publish
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, QueueId, TaskKind, TaskState, new_task_id
from detectsched.wordlist import Word
from tests.engines.test_pdf import written
from tests.support.system import System, dispatching, runner

pytestmark = pytest.mark.ocr


async def of_object(system: System, name: str, payload: str | bytes, engine: str | None = None) -> NewTask:
    """Return a task of an object, with its payload stored."""
    task_id = new_task_id()
    task = NewTask(
        id=task_id,
        tenant=DEFAULT_TENANT,
        kind=TaskKind.TEXT if engine is None else TaskKind.CALCULATE,
        lane="text" if engine is None else "ocr",
        queue=QueueId.of_object(DEFAULT_TENANT, name),
        cost=1.0,
        ttl_seconds=3600,
        object=name,
        text=payload if isinstance(payload, str) else None,
        blob=None if isinstance(payload, str) else f"default/{task_id}",
        blob_sha256=None if isinstance(payload, str) else hashlib.sha256(payload).digest(),
        engine=engine,
    )
    if isinstance(payload, bytes):
        await system.blobs.put(f"default/{task_id}", payload)
    return task


async def test_an_objects_tasks_run_one_after_the_other(settings: Settings) -> None:
    """Over both kinds and both lanes: each is started after the one before has ended; one that fails stops nobody."""
    letter = written([(20, 150, "the secret plan")])
    async with dispatching(settings) as system:
        await publish(
            system.ledger, DEFAULT_TENANT, "words", [Word("secret", level=2)], name="W", is_default=True, by="test"
        )
        tasks = [
            await of_object(system, "door", "a secret text"),
            await of_object(system, "door", letter, "pdf"),
            await of_object(system, "door", b"%PDF-", "pdf"),
            await of_object(system, "door", "nothing"),
        ]
        async with runner(settings, "ocr", "text"):
            await system.submit(*tasks)
            states = await system.wait_for_all([task.id for task in tasks])
            await system.wait_until_at_rest()
        views = [await system.view(task.id) for task in tasks]
    assert states == [TaskState.SUCCEEDED, TaskState.SUCCEEDED, TaskState.FAILED, TaskState.SUCCEEDED]
    assert [[hit.word for hit in view.hits] for view in views] == [["secret"], ["secret"], [], []]
    assert [(view.engine and view.engine.state, view.detection and view.detection.state) for view in views] == [
        (None, "success"),
        ("success", "success"),
        ("failed", "failed"),
        (None, "success"),
    ]
    times = [(view.task.started_at, view.task.finished_at) for view in views]
    for (_, ended), (began, _) in pairwise(times):
        assert ended is not None
        assert began is not None
        assert ended <= began
