"""``detectsched demo`` and ``detectsched bench``: to see it work, and how fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

bench = typer.Typer(no_args_is_help=True, help="Measure a running system.", rich_markup_mode=None)


def demo(
    leave: Annotated[bool, typer.Option("--exit", help="End when the table is shown, instead of serving on.")] = False,
    texts: Annotated[int, typer.Option(min=0, help="How many texts the devices submit.")] = 300,
    port: Annotated[int, typer.Option(help="Port of the API; 0 takes a free one.")] = 8080,
    data: Annotated[Path | None, typer.Option(help="Directory to keep; without it a fresh one is used.")] = None,
) -> None:
    """Start everything, let a dozen devices submit screenshots and texts, and show what was found."""
    import asyncio

    from detectsched.demo.show import DemoOptions, run_demo

    raise typer.Exit(asyncio.run(run_demo(DemoOptions(leave=leave, texts=texts, port=port, data=data))))


@bench.command()
def latency(
    url: Annotated[str | None, typer.Option(help="API of a running system; without it one is started.")] = None,
    key: Annotated[str | None, typer.Option(help="API key of that system.", envvar="DETECTSCHED_KEY")] = None,
    count: Annotated[int, typer.Option(min=1, max=100_000, help="How many texts, one after the other.")] = 300,
) -> None:
    """Submit texts to an idle system one by one, and show how long each took to succeed."""
    import asyncio

    from detectsched.bench.latency import run_latency

    raise typer.Exit(asyncio.run(run_latency(url=url, key=key, count=count)))


@bench.command()
def succession(
    count: Annotated[int, typer.Option(min=2, max=180, help="How many texts of one object.")] = 150,
) -> None:
    """Let many texts of one object wait, and show how soon each is started after the one before."""
    import asyncio

    from detectsched.bench.succession import run_succession

    raise typer.Exit(asyncio.run(run_succession(count)))


@bench.command()
def pressure() -> None:
    """Read images beside nothing, beside as much work of others, and afterwards; show when the runner gives way."""
    import asyncio

    from detectsched.bench.pressure import run_pressure

    raise typer.Exit(asyncio.run(run_pressure()))


@bench.command()
def rebuild(
    tasks: Annotated[int, typer.Option(min=1, max=2_000_000, help="Open tasks.")] = 100_000,
    queues: Annotated[int, typer.Option(min=1, max=1_000_000, help="Devices and objects that they belong to.")] = 1000,
) -> None:
    """Let Redis lose everything, and show how long it takes until tasks are handed out again."""
    import uvloop

    from detectsched.bench.rebuild import run_rebuild

    raise typer.Exit(uvloop.run(run_rebuild(tasks=tasks, queues=queues)))


@bench.command()
def matching(
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="How often each text is searched.")] = 5,
    library: Annotated[
        Literal["pyahocorasick", "ahocorasick_rs"], typer.Option(help="What searches.")
    ] = "pyahocorasick",
) -> None:
    """Search clean and dirty texts for up to 100,000 words, and show what loading these takes."""
    import uvloop

    from detectsched.bench.matching import run_matching
    from detectsched.wordlist import SearchLibrary

    raise typer.Exit(uvloop.run(run_matching(rounds=rounds, library=SearchLibrary(library))))


@bench.command()
def ocr(
    images: Annotated[int, typer.Option(min=2, max=100_000, help="How many images each slot reads in a round.")] = 20,
    slots: Annotated[int, typer.Option(min=1, max=64, help="Engine processes.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="How many turns each of both has.")] = 4,
) -> None:
    """Compare the images/s of the whole system with those of the engine alone on the same cores, by turns."""
    import asyncio

    from detectsched.bench.ocr import run_ocr

    raise typer.Exit(asyncio.run(run_ocr(images=images, slots=slots, rounds=rounds)))


@bench.command()
def batching(
    images: Annotated[int, typer.Option(min=1, max=100_000, help="How many images are read at each size.")] = 64,
    sizes: Annotated[str, typer.Option(help="Images a batch, separated by commas.")] = "1,2,4,8,16",
    slots: Annotated[int, typer.Option(min=1, max=64, help="Engine processes.")] = 1,
    gpu: Annotated[bool, typer.Option("--gpu", help="Read on a GPU; refused where none is usable.")] = False,
) -> None:
    """Read the same images in micro-batches of several sizes, and show which is fastest here."""
    import asyncio

    from detectsched.bench.batching import run_batching

    wanted = [int(size) for size in sizes.replace(",", " ").split() if size.isdecimal() and 1 <= int(size) <= 64]
    if not wanted:
        raise typer.BadParameter("give sizes from 1 to 64, as 1,2,4", param_hint="--sizes")
    raise typer.Exit(asyncio.run(run_batching(images=images, sizes=wanted, slots=slots, gpu=gpu)))
