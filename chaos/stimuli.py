"""What makes a process pass a failpoint: one small piece of life for each family of them."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from chaos.cluster import TENANTS
from chaos.engine import POISON
from chaos.faults import pause_at_work
from chaos.journal import Asked
from chaos.load import Load
from chaos.processes import Daemon
from chaos.stage import Stage
from detectsched.db.accept import NewTask, accept
from detectsched.db.connection import Ledger
from detectsched.task import QueueId, TaskKind, new_task_id


@dataclass
class Scene:
    """The stage, the client, and the process that is to fail."""

    stage: Stage
    load: Load
    armed: Daemon
    callback: str = ""
    """Where tasks may say that they are over."""
    pending: list[asyncio.Task[Any]] = field(default_factory=list)
    """Stimuli whose client still waits for an answer."""

    @property
    def chance(self) -> random.Random:
        """Chance of the client."""
        return self.stage.chance

    def others(self, kind: str) -> list[Daemon]:
        """Return the daemons of a kind that are not to fail."""
        return [daemon for daemon in self.stage.system.of(kind) if daemon is not self.armed]


Stimulus: TypeAlias = Callable[[Scene], Coroutine[Any, Any, None]]


async def submit(scene: Scene) -> None:
    """Submit texts and images of devices and objects."""
    bodies: list[dict[str, Any]] = [
        {"object": "door", "text": "one"},
        {"mac": "02:00:00:00:00:01", "text": "a text"},
        {"mac": "02:00:00:00:00:02", "image": b"harmless"},
        {"mac": "02:00:00:00:00:03", "image": b"harmless"},
        {"object": "door", "text": "two"},
    ]
    await asyncio.gather(*(scene.load.ask(TENANTS[0], body, scene.chance) for body in bodies))


async def cancel(scene: Scene) -> None:
    """Submit, and cancel at once."""
    body = {"mac": "02:00:00:00:00:02", "image": b"harmless"}
    if (task := await scene.load.ask(TENANTS[0], body, scene.chance)) is not None:
        await scene.load.cancel(TENANTS[0], task)


async def crash_engines(scene: Scene) -> None:
    """Submit what crashes engines: the try is given back."""
    await scene.load.ask(TENANTS[0], {"mac": "02:00:00:00:00:04", "image": POISON}, scene.chance)


async def lose_runner(scene: Scene) -> None:
    """Kill a runner that has a task."""
    [runner, *_] = scene.others("runner")
    work = asyncio.create_task(_keep_busy(scene))
    try:
        await pause_at_work(scene.stage, runner)
        await runner.kill()
    finally:
        work.cancel()
        await asyncio.wait([work])
    await runner.start()


async def lose_runner_and_redis(scene: Scene) -> None:
    """Kill a runner that has a task, and let Redis lose everything: the task is held for a lease."""
    await lose_runner(scene)
    await flush(scene)


async def flush(scene: Scene) -> None:
    """Let Redis lose everything, with something open."""
    await asyncio.gather(submit(scene), _flush(scene))


async def expire(scene: Scene) -> None:
    """Submit what nobody can serve, with a short time to live."""
    async with _without_runners(scene):
        body = {"mac": "02:00:00:00:00:05", "text": "too late", "ttl_seconds": 1}
        await asyncio.gather(*(scene.load.ask(TENANTS[0], dict(body), scene.chance) for _ in range(3)))
        await asyncio.sleep(2.5)


async def give_up(scene: Scene) -> None:
    """Submit what nobody can serve to a dispatcher that does not wait for runners."""
    async with _without_runners(scene):
        body = {"mac": "02:00:00:00:00:06", "text": "nobody"}
        await asyncio.gather(*(scene.load.ask(TENANTS[0], dict(body), scene.chance) for _ in range(3)))
        await asyncio.sleep(1.0)


async def forget(scene: Scene) -> None:
    """Commit a row and never queue it: an API has died in between."""
    key = f"forgotten-{scene.chance.getrandbits(64)}"
    journal = scene.stage.journal
    journal.write(Asked(journal.now(), key, TENANTS[0]))
    ledger = Ledger(scene.stage.system.settings.postgres)
    mac = "02:00:00:00:00:07"
    row = NewTask(
        id=new_task_id(),
        tenant=TENANTS[0],
        kind=TaskKind.TEXT,
        lane="text",
        queue=QueueId.of_device(TENANTS[0], "text", mac),
        cost=1.0,
        ttl_seconds=3600,
        mac=mac,
        text="forgotten",
        idempotency_key=key,
        request_hash=b"",
    )
    try:
        await accept(ledger, [row])
    finally:
        await ledger.close()
    # The reconciler is patient: the row might be on its way.
    await asyncio.sleep(11)


async def tell(scene: Scene) -> None:
    """Submit what somebody wants to be told of."""
    body = {"mac": "02:00:00:00:00:08", "text": "tell me", "callback_url": scene.callback}
    await asyncio.gather(*(scene.load.ask(TENANTS[0], dict(body), scene.chance) for _ in range(3)))


async def _keep_busy(scene: Scene) -> None:
    while True:
        with contextlib.suppress(asyncio.QueueEmpty):
            await submit(scene)


async def _flush(scene: Scene) -> None:
    async with scene.stage.system.redis() as client:
        await client.flushall()


@contextlib.asynccontextmanager
async def _without_runners(scene: Scene) -> AsyncIterator[None]:
    runners = scene.others("runner")
    await asyncio.gather(*(runner.terminate() for runner in runners))
    try:
        yield
    finally:
        for runner in runners:
            await runner.start()


OWNERS: Final = {
    "accept": "api",
    "cancel": "api",
    "run": "runner",
    "dispatch": "dispatcher",
    "reap": "dispatcher",
    "recover": "dispatcher",
    "promote": "dispatcher",
    "expire": "dispatcher",
    "settle": "dispatcher",
    "reconcile": "dispatcher",
    "rebuild": "dispatcher",
    "webhook": "dispatcher",
}
"""Which kind of process passes the failpoints of a family."""

STIMULI: Final[dict[str, Stimulus]] = {
    "accept": submit,
    "cancel": cancel,
    "dispatch": submit,
    "run": submit,
    "run.before_give_back": crash_engines,
    "run.after_give_back": crash_engines,
    "reap": lose_runner,
    "recover": lose_runner,
    "promote": lose_runner_and_redis,
    "expire": expire,
    "settle": give_up,
    "reconcile": forget,
    "rebuild": flush,
    "webhook": tell,
}
"""By family, or by name where one differs."""

EXTRA: Final = {"settle": {"DETECTSCHED_SCHEDULER_NO_RUNNER": "dead_letter"}}
"""Settings of the process that is to fail, by family."""
