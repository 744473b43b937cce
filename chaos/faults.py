"""Everything that can go wrong on one machine, one function a kind; names as in docs/reliability.md.

A function returns when its fault is healed. All are given the same `Stage`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import asyncpg
import psutil
import redis.exceptions

from chaos.processes import Daemon
from chaos.stage import Stage

Play: TypeAlias = Callable[[Stage], Awaitable[None]]

FAULTS: Final[dict[str, Play]] = {}
"""By name, in the order of this file."""

_TRIES: Final = 50
_POSTGRES_AWAY: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)
_REDIS_AWAY: Final = (redis.exceptions.RedisError, OSError)


def fault(name: str) -> Callable[[Play], Play]:
    """Register a fault."""

    def register(play: Play) -> Play:
        FAULTS[name] = play
        return play

    return register


# Processes ------------------------------------------------------------------------------------------------------------


@fault("runner-killed")
async def kill_runner(stage: Stage) -> None:
    """F3: kill -9 a runner, whatever it does."""
    runner = stage.one("runner")
    async with stage.fault("runner-killed", str(runner.pid)):
        await runner.kill()
    await stage.last(0.2, 1.0)
    await stage.restart(runner)


@fault("runner-stopped")
async def stop_runner(stage: Stage) -> None:
    """F5: SIGSTOP a runner for longer than its lease: it wakes as a zombie."""
    runner = stage.one("runner")
    async with stage.fault("runner-stopped", runner.name):
        await pause_at_work(stage, runner)
        await asyncio.sleep(stage.lease * 2 + stage.sweep)
        runner.resume()


async def pause_at_work(stage: Stage, runner: Daemon) -> None:
    """Stop it while it has a task, which is seen only once it is stopped: without one it would wake as nobody."""
    for _ in range(_TRIES):
        runner.pause()
        await asyncio.sleep(0.1)  # what it wrote just before is on its way
        with contextlib.suppress(*_POSTGRES_AWAY):
            async with stage.system.sql() as connection:
                if await connection.fetchval(
                    "SELECT true FROM task WHERE state = 'running' AND split_part(runner, ':', 2) = $1 LIMIT 1",
                    str(runner.pid),
                ):
                    return
        runner.resume()
        await asyncio.sleep(stage.chance.uniform(0.01, 0.1))
    runner.pause()


@fault("engine-killed")
async def kill_engine(stage: Stage) -> None:
    """F4: kill -9 an engine process; its runner lives on."""
    runner = stage.one("runner")
    async with stage.fault("engine-killed", runner.name):
        for engine in runner.children()[:1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                engine.kill()


@fault("dispatcher-killed")
async def kill_dispatcher(stage: Stage) -> None:
    """F2: kill -9 a dispatcher."""
    dispatcher = stage.one("dispatcher")
    async with stage.fault("dispatcher-killed", dispatcher.name):
        await dispatcher.kill()
        await stage.last(0.2, 1.0)
        await stage.restart(dispatcher)


@fault("dispatcher-stopped")
async def stop_dispatcher(stage: Stage) -> None:
    """F6: SIGSTOP a dispatcher for longer than a lease."""
    dispatcher = stage.one("dispatcher")
    async with stage.fault("dispatcher-stopped", dispatcher.name):
        dispatcher.pause()
        await asyncio.sleep(stage.lease + stage.sweep)
        dispatcher.resume()


@fault("api-killed")
async def kill_api(stage: Stage) -> None:
    """F1: kill -9 the API while requests are under way."""
    api = stage.one("api")
    async with stage.fault("api-killed", api.name):
        await api.kill()
        await stage.restart(api)
        with contextlib.suppress(RuntimeError):
            await stage.system.wait_started(api, 30.0)


@fault("rolling-restart")
async def roll(stage: Stage) -> None:
    """F29: SIGTERM one process of each kind after the other; each ends with 0 and is started again."""
    for kind in ("dispatcher", "runner", "api"):
        daemon = stage.one(kind)
        async with stage.fault("rolling-restart", daemon.name):
            status = await daemon.terminate()
            if status != 0:
                daemon.deaths.append(status)
            await stage.restart(daemon)
            with contextlib.suppress(RuntimeError):
                await stage.system.wait_started(daemon, 30.0)


# Redis ----------------------------------------------------------------------------------------------------------------


@fault("redis-killed")
async def kill_redis(stage: Stage) -> None:
    """F8: kill -9 Redis; it comes back with all of its data, as another run."""
    async with stage.fault("redis-killed", blinds=True):
        await stage.system.valkey.kill()
        await stage.last(0.5, 2.0)
        await stage.system.valkey.start()


@fault("redis-stopped")
async def stop_redis(stage: Stage) -> None:
    """F7: SIGSTOP Redis for longer than any time-out; what was asked meanwhile is carried out when it wakes."""
    pid = stage.system.valkey.pid
    async with stage.fault("redis-stopped", blinds=True):
        if pid is not None:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(stage.system.settings.redis.socket_timeout_seconds * 2.5)
            os.kill(pid, signal.SIGCONT)


@fault("redis-flushed")
async def flush_redis(stage: Stage) -> None:
    """F9: FLUSHALL."""
    async with stage.fault("redis-flushed"), stage.system.redis() as client:
        await client.flushall()


@fault("redis-truncated")
async def truncate_redis(stage: Stage) -> None:
    """F9: the last writes of the append-only file are gone after a crash."""
    async with stage.fault("redis-truncated", blinds=True):
        await stage.system.valkey.kill()
        newest = max(_append_only(stage).glob("*.incr.aof"), key=lambda path: path.stat().st_mtime)
        size = newest.stat().st_size
        os.truncate(newest, max(0, size - stage.chance.randint(1, max(1, min(size, 100_000)))))
        await stage.system.valkey.start()


@fault("redis-old-snapshot")
async def put_back_redis(stage: Stage) -> None:
    """F9: Redis comes back with data of some seconds ago, a valid generation among them."""
    kept = stage.system.valkey.data.with_name("kept")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(_append_only(stage), kept)
    await stage.last(1.0, 3.0)
    async with stage.fault("redis-old-snapshot", blinds=True):
        await stage.system.valkey.kill()
        shutil.rmtree(_append_only(stage))
        kept.rename(_append_only(stage))
        await stage.system.valkey.start()


@fault("redis-stream-gone")
async def remove_stream(stage: Stage) -> None:
    """F9: a stream is evicted, with its group and all that was pending."""
    lane = stage.chance.choice(("ocr", "text"))
    async with stage.fault("redis-stream-gone", lane), stage.system.redis() as client:
        await client.unlink(f"{{{stage.system.settings.redis.prefix}:0}}:stream:{lane}")


@fault("scripts-flushed")
async def flush_scripts(stage: Stage) -> None:
    """SCRIPT FLUSH, again and again."""
    async with stage.fault("scripts-flushed"), stage.system.redis() as client:
        for _ in range(5):
            await client.script_flush()
            await asyncio.sleep(0.2)


@fault("redis-clients-killed")
async def kill_clients(stage: Stage) -> None:
    """F10: CLIENT KILL TYPE normal, again and again."""
    async with stage.fault("redis-clients-killed"), stage.system.redis() as client:
        for _ in range(6):
            with contextlib.suppress(*_REDIS_AWAY):
                await client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await asyncio.sleep(0.3)


@fault("redis-paused")
async def pause_redis(stage: Stage) -> None:
    """F11: CLIENT PAUSE WRITE: reads are answered, writes wait."""
    async with stage.fault("redis-paused"), stage.system.redis(socket_timeout=10.0) as client:
        await client.execute_command("CLIENT", "PAUSE", "2500", "WRITE")
        await asyncio.sleep(2.5)


@fault("redis-full")
async def fill_redis(stage: Stage) -> None:
    """F12: no memory is left for anything new."""
    async with stage.fault("redis-full"), stage.system.redis() as client:
        await client.config_set("maxmemory", 1)
        try:
            await stage.last(1.5, 3.0)
        finally:
            await client.config_set("maxmemory", 0)


# PostgreSQL -----------------------------------------------------------------------------------------------------------


@fault("postgres-killed")
async def kill_postgres(stage: Stage) -> None:
    """F17: kill -9 PostgreSQL; it recovers from its log."""
    async with stage.fault("postgres-killed", blinds=True):
        await stage.system.postgres.kill()
        await stage.last(0.2, 1.5)
        await stage.system.postgres.start()


@fault("postgres-sessions-ended")
async def end_sessions(stage: Stage) -> None:
    """F16: every session is terminated, again and again."""
    async with stage.fault("postgres-sessions-ended"), stage.system.sql() as connection:
        for _ in range(6):
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid()"
            )
            await asyncio.sleep(0.3)


@fault("postgres-locked")
async def lock_postgres(stage: Stage) -> None:
    """F19: somebody holds the table of tasks."""
    async with stage.fault("postgres-locked"), stage.system.sql() as connection, connection.transaction():
        with contextlib.suppress(asyncpg.PostgresError):
            await connection.execute("SET LOCAL lock_timeout = '3s'")
            await connection.execute("LOCK TABLE task IN ACCESS EXCLUSIVE MODE")
            await stage.last(1.5, 3.0)


# Links ----------------------------------------------------------------------------------------------------------------


@fault("link-cut")
async def cut_link(stage: Stage) -> None:
    """F14: a process and its stores are parted; nobody answers its attempts."""
    name, links = stage.links_of(stage.any_kind())
    async with stage.fault("link-cut", name):
        for proxy in links.both():
            proxy.refusing = True
            proxy.cut()
        await stage.last(1.0, 2.5)
        for proxy in links.both():
            proxy.heal()


@fault("runner-without-redis")
async def silence_redis(stage: Stage) -> None:
    """F14: a runner hears nothing of Redis for longer than its lease, and what it said arrives afterwards."""
    name, links = stage.links_of("runner")
    async with stage.fault("runner-without-redis", name):
        links.redis.silence()
        await asyncio.sleep(stage.lease * 1.5)
        links.redis.heal()


@fault("runner-without-postgres")
async def silence_postgres(stage: Stage) -> None:
    """F15: a runner hears of Redis and not of PostgreSQL; what it wrote arrives afterwards."""
    name, links = stage.links_of("runner")
    async with stage.fault("runner-without-postgres", name):
        links.postgres.silence()
        await asyncio.sleep(stage.lease * 1.5)
        links.postgres.heal()


@fault("link-slow")
async def slow_link(stage: Stage) -> None:
    """F14: every packet of a process takes 30 ms."""
    name, links = stage.links_of(stage.any_kind())
    async with stage.fault("link-slow", name):
        for proxy in links.both():
            proxy.delay_seconds = 0.03
        await stage.last(1.0, 2.0)
        for proxy in links.both():
            proxy.heal()


@fault("replies-lost")
async def lose_replies(stage: Stage) -> None:
    """F13, F18: every 20th answer of a store is lost, commits and scripts among them."""
    name, links = stage.links_of(stage.any_kind())
    async with stage.fault("replies-lost", name):
        for proxy in links.both():
            proxy.lose_every = 20
        await stage.last(1.5, 3.0)
        for proxy in links.both():
            proxy.heal()


# Two at once ----------------------------------------------------------------------------------------------------------


@fault("zombie-and-flush")
async def zombie_and_flush(stage: Stage) -> None:
    """F35 (F5 and F9): Redis loses everything while a runner sleeps."""
    async with stage.fault("zombie-and-flush"):
        await asyncio.gather(stop_runner(stage), flush_redis(stage))


@fault("kill-and-sessions")
async def kill_and_sessions(stage: Stage) -> None:
    """F35 (F3 and F16): a runner dies while PostgreSQL ends every session."""
    async with stage.fault("kill-and-sessions"):
        await asyncio.gather(kill_runner(stage), end_sessions(stage))


@fault("both-stores-killed")
async def kill_both(stage: Stage) -> None:
    """F35: both stores crash at once."""
    async with stage.fault("both-stores-killed", blinds=True):
        await asyncio.gather(kill_redis(stage), kill_postgres(stage))


def _append_only(stage: Stage) -> Path:
    return stage.system.valkey.data / "appendonlydir"
