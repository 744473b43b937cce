"""``detectsched up``: the whole system on one machine, stores included, until it is told to stop.

Order of start, and in reverse of stop: stores, schema, runners, dispatcher, API. Both directions have one reason each:

- *Start:* a task is only accepted when somebody is there to hand it out, and only handed out when somebody is there to
  run it; a dispatcher that finds no runner puts queues into back-off.
- *Stop:* the API goes first (nothing new), then the dispatcher (nothing is handed out, and no lane seems to have lost
  its runners), then the runners (finish or give back what they have), and the stores last, when nobody needs them.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from pydantic import SecretStr

from detectsched.db.migrate import upgrade
from detectsched.embedded import places
from detectsched.embedded.console import Console
from detectsched.embedded.first_key import FirstKey, first_key
from detectsched.embedded.fleet import Fleet, Stores, child_environment, choose_stores, make_fleet
from detectsched.embedded.lock import DataLock
from detectsched.embedded.supervisor import Patience, Together
from detectsched.lifecycle import Service, run_services
from detectsched.settings import LogFormat, PostgresSettings, load_settings
from detectsched.telemetry import configure_logging

_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - it is looked up, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What the command line says; None leaves it to the settings, and an address then to what is embedded."""

    data: Path = Path("data")
    """Directory of everything that is kept."""
    host: str | None = None
    port: int | None = None
    """0: any free one."""
    redis_url: str | None = None
    postgres_url: str | None = None
    text_runners: int = 1
    ocr_runners: int = 1
    log: Path | None = None
    """A file for what the processes say, instead of the terminal; deaths are told there all the same."""


@dataclass(frozen=True, slots=True)
class System:
    """A running system, as its guest sees it."""

    api_url: str
    admin_key: str | None
    """None where the database had keys already and none is kept with the data."""
    redis_url: str
    postgres_url: str
    data: Path
    pids: Callable[[], Mapping[str, int]]
    """Process ids by name, as they are now: api, dispatcher, text, ocr (text-1, … where there are several)."""


Guest = Callable[[System], Awaitable[int]]
"""Uses the system; its return stops everything, and what it returns is the exit status."""


async def up(options: UpOptions, *, guest: Guest | None = None, patience: Patience | None = None) -> int:
    """Run everything until a signal, a death that cannot be mended, or the guest's return; give the exit status.

    Raises:
        ConfigurationError: wrong settings, the data or the port is taken, a store did not start.
        StoreUnavailable: a store of one's own is not reachable.
    """
    settings = load_settings()
    data = options.data.expanduser().resolve()
    with _locked(data), _console(settings.log.format, options.log) as console:
        # On a terminal and elsewhere alike, people read this; JSON is for those who ask for it.
        shown = LogFormat.JSON if settings.log.format is LogFormat.JSON else LogFormat.CONSOLE
        configure_logging(settings.log.model_copy(update={"format": shown}), "up")
        host = options.host or settings.api.host
        wanted = settings.api.port if options.port is None else options.port
        places.ensure_port_is_free(host, wanted, "the API cannot listen", "--port")
        port = wanted or places.free_port()
        api_url = f"http://{_in_url(_EVERYWHERE.get(host, host))}:{port}"
        stores = choose_stores(settings, data, options.redis_url, options.postgres_url)
        fleet = make_fleet(
            child_environment(settings, stores, data, host=host, port=port),
            settings,
            console,
            patience or Patience(),
            api_url=api_url,
            runners={"text": options.text_runners, "ocr": options.ocr_runners},
        )
        postgres = settings.postgres.model_copy(update={"url": SecretStr(stores.postgres_url)})
        schema = Schema(postgres, data / "admin.key")
        stop = asyncio.Event()
        visitor = Visitor(guest, lambda: _system(api_url, schema, stores, data, fleet), stop)
        status = await run_services(
            [
                Together("stores", stores.servers),
                schema,
                Together("runners", fleet.runners),
                fleet.dispatcher,
                fleet.api,
                visitor,
            ],
            ready=lambda: console.say(_greeting(api_url, schema, stores, data)),
            stop=stop,
        )
        return status or visitor.status


class Schema(Service):
    """Not a process but a step: brings the database up to date and sees to the first key."""

    def __init__(self, postgres: PostgresSettings, key_file: Path) -> None:
        self._postgres = postgres
        self.key_file = key_file
        self.first = FirstKey(None, new=False)

    async def start(self) -> None:
        """Do it; doing it again changes nothing."""
        await upgrade(self._postgres)
        self.first = await first_key(self._postgres, self.key_file)

    async def stop(self) -> None:
        """Nothing is to be undone."""


class Visitor(Service):
    """Lets a guest use the system, and stops everything when it has done so."""

    def __init__(self, guest: Guest | None, system: Callable[[], System], stop: asyncio.Event) -> None:
        self.status = 0
        self._guest = guest
        self._system = system
        self._stop = stop
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Let it in."""
        if self._guest is not None and self._task is None:
            self._task = asyncio.create_task(self._visit(self._guest), name="guest")

    async def stop(self) -> None:
        """Show it out."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def wait(self) -> None:
        """Raise what the guest raised; its orderly end is told by the stop event."""
        if self._task is not None:
            await asyncio.shield(self._task)
        await asyncio.Event().wait()

    async def _visit(self, guest: Guest) -> None:
        self.status = await guest(self._system())
        self._stop.set()


@contextlib.contextmanager
def _locked(data: Path) -> Iterator[None]:
    lock = DataLock(data)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _console(log_format: LogFormat, log: Path | None) -> Iterator[Console]:
    # Standard output is for data.
    stream: TextIO = sys.stderr
    prefixed = log_format is not LogFormat.JSON
    if log is None:
        yield Console(stream, prefixed=prefixed)
    else:
        with log.open("a", encoding="utf-8") as lines:
            yield Console(stream, lines=lines, prefixed=prefixed)


def _system(api_url: str, schema: Schema, stores: Stores, data: Path, fleet: Fleet) -> System:
    return System(api_url, schema.first.key, stores.redis_url, stores.postgres_url, data, fleet.pids)


def _greeting(api_url: str, schema: Schema, stores: Stores, data: Path) -> str:
    lines = [f"detectsched is up at {api_url} (its description: {api_url}/openapi.json); Ctrl-C stops it"]
    if schema.first.new:
        lines.append(f"admin API key, shown this once and kept in {schema.key_file}: {schema.first.key}")
    elif schema.first.key is not None:
        lines.append(f"admin API key: see {schema.key_file}")
    lines.append(f"data in {data}")
    # Those of one's own may hold passwords.
    embedded = {server.url for server in stores.servers}
    lines += [f"{name}={url}" for name, url in _addresses(stores) if url in embedded]
    return "\n".join(lines)


def _addresses(stores: Stores) -> list[tuple[str, str]]:
    return [("DETECTSCHED_REDIS_URL", stores.redis_url), ("DETECTSCHED_POSTGRES_URL", stores.postgres_url)]


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
