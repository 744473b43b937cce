"""``detectsched demo``: the whole system at work, with what was planted, found, missed and invented."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from detectsched.client import Client
from detectsched.clock import monotonic
from detectsched.demo.corpus import DEMO_WORDS, images, texts
from detectsched.demo.fleet import Device, Sent, Verdict, fleet_of
from detectsched.embedded.up import System, UpOptions, up

_SINGLY: Final = 5
"""Texts that each device sends one by one before it sends batches."""
_BATCH: Final = 50
_WAITING: Final = 32
"""Long-polls open at once."""
_SHOWN_PLACES: Final = 4
_PIPED_WIDTH: Final = 120


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the command line says."""

    leave: bool = False
    """End when the table is shown, instead of serving on."""
    texts: int = 300
    port: int = 8080
    data: Path | None = None
    """Where to keep everything; None: a directory that is removed afterwards."""


async def run_demo(options: DemoOptions) -> int:
    """Start the system, show it at work, and return 0 if every planted word was found and none invented."""
    # Where the output goes to a file or a pipe its width is not known: the table needs this much.
    console = Console() if sys.stdout.isatty() else Console(width=_PIPED_WIDTH)
    if options.data is not None:
        return await _run(options, options.data, console)
    with tempfile.TemporaryDirectory(prefix="detectsched-demo-") as directory:
        return await _run(options, Path(directory), console)


async def _run(options: DemoOptions, data: Path, console: Console) -> int:
    console.print("Starting Valkey, PostgreSQL, the API, a dispatcher and two runners …")
    await asyncio.to_thread(data.mkdir, parents=True, exist_ok=True)
    log = data / "demo.log"

    async def guest(system: System) -> int:
        status = await _show(system, options, console)
        if not options.leave:
            console.print(_farewell(system, log), soft_wrap=True)
            await asyncio.Event().wait()
        return status

    return await up(UpOptions(data=data, port=options.port, log=log), guest=guest)


async def _show(system: System, options: DemoOptions, console: Console) -> int:
    console.print(f"It is up at {system.api_url}. Drawing the screenshots …")
    devices = fleet_of(await asyncio.to_thread(images), texts(options.texts))
    began = monotonic()
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    async with Client(system.api_url, system.admin_key or "") as client:
        await client.publish_words(
            "demo",
            "Demo",
            [{"text": word.text, "category": word.category, "level": word.level} for word in DEMO_WORDS],
        )
        with Progress(*columns, console=console) as progress:
            await _submit(client, devices, progress)
            verdicts = await _collect(client, devices, progress)
    seconds = monotonic() - began
    console.print(_table(verdicts))
    return _summarise([verdict for own in verdicts.values() for verdict in own], seconds, console)


async def _submit(client: Client, devices: Sequence[Device], progress: Progress) -> None:
    total = sum(len(device.images) + len(device.texts) for device in devices)
    bar = progress.add_task("devices submit", total=total)
    await asyncio.gather(
        *(_submit_all_of(client, device, lambda count: progress.advance(bar, count)) for device in devices)
    )


async def _submit_all_of(client: Client, device: Device, advance: Callable[[int], None]) -> None:
    """Send what one device has: images one by one, the first texts singly, the rest in batches."""
    for number, image in enumerate(device.images):
        key = f"{device.mac}-image-{number}"
        task_id = await client.submit_image(device.mac, image.name, image.data, image.media_type, key=key)
        device.sent.append(Sent(task_id, image.name, image.planted, is_image=True))
        advance(1)
    single, batched = device.texts[:_SINGLY], device.texts[_SINGLY:]
    for number, text in enumerate(single):
        task_id = await client.submit_text(device.mac, text.text, key=f"{device.mac}-text-{number}")
        device.sent.append(Sent(task_id, "text", text.planted, is_image=False))
        advance(1)
    for start in range(0, len(batched), _BATCH):
        chunk = batched[start : start + _BATCH]
        task_ids = await client.submit_batch([{"kind": "text", "mac": device.mac, "text": text.text} for text in chunk])
        device.sent.extend(
            Sent(task_id, "text", text.planted, is_image=False) for task_id, text in zip(task_ids, chunk, strict=True)
        )
        advance(len(chunk))


async def _collect(client: Client, devices: Sequence[Device], progress: Progress) -> dict[str, list[Verdict]]:
    """Wait for every result; return them by device."""
    bar = progress.add_task("results come in", total=sum(len(device.sent) for device in devices))

    async def collect(sent: Sent) -> Verdict:
        async with waiting:
            task = await client.result(sent.task_id)
        progress.advance(bar)
        return Verdict(sent, task)

    waiting = asyncio.Semaphore(_WAITING)
    return {device.mac: list(await asyncio.gather(*map(collect, device.sent))) for device in devices}


def _table(verdicts: Mapping[str, Sequence[Verdict]]) -> Table:
    table = Table(title="What was found", show_lines=True)
    for column in ("device", "images", "texts", "wait p50", "wait max", "hits"):
        table.add_column(column, no_wrap=True)
    table.add_column("which words, and where", overflow="fold", ratio=1)
    for mac, own in verdicts.items():
        images = sum(verdict.sent.is_image for verdict in own)
        waits = [verdict.wait_seconds for verdict in own if verdict.wait_seconds is not None]
        places = [place for verdict in own for place in verdict.places()]
        table.add_row(
            mac,
            str(images),
            str(len(own) - images),
            f"{median(waits):.2f} s" if waits else "",
            f"{max(waits):.2f} s" if waits else "",
            str(len(places)),
            "\n".join(_shortened(places)),
        )
    return table


def _shortened(places: Sequence[str]) -> Sequence[str]:
    if len(places) <= _SHOWN_PLACES + 1:
        return places
    return [*places[:_SHOWN_PLACES], f"… and {len(places) - _SHOWN_PLACES} more"]


def _summarise(verdicts: Sequence[Verdict], seconds: float, console: Console) -> int:
    """Print the summary line, and what was missed or invented; return the exit status."""
    wrong = 0
    for verdict in verdicts:
        if verdict.task["state"] != "succeeded":
            wrong += 1
            task = verdict.task
            console.print(f"[red]{verdict.sent.name} {verdict.sent.task_id} is {task['state']}: {task['error']}")
        elif verdict.missing or verdict.invented:
            wrong += 1
            console.print(f"[red]{verdict.sent.name}: missing {verdict.missing}, invented {verdict.invented}")
    planted = sum(len(verdict.sent.planted) for verdict in verdicts)
    missing = sum(len(verdict.missing) for verdict in verdicts)
    invented = sum(len(verdict.invented) for verdict in verdicts)
    console.print(
        f"{len(verdicts)} tasks in {seconds:.1f} s: {planted} words planted, {planted - missing} found, "
        f"{missing} missed, {invented} invented",
        style="bold green" if wrong == 0 else "bold red",
    )
    return 0 if wrong == 0 else 1


def _farewell(system: System, log: Path) -> str:
    return (
        f"\nThe system goes on serving at [bold]{system.api_url}[/bold] until Ctrl-C. Look at:\n"
        f"  {system.api_url}/openapi.json    the API, described for generators\n"
        f"  {system.api_url}/readyz?verbose  its health\n"
        f"  {system.api_url}/metrics         its figures\n"
        f"  curl -H 'Authorization: Bearer {system.admin_key}' '{system.api_url}/api/tasks?has_hits=true'\n"
        f"  {log}   what its processes say"
    )
