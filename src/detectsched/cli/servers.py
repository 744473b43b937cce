"""The long-running commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def up(
    data: Annotated[Path, typer.Option(help="Directory that keeps everything.")] = Path("data"),
    host: Annotated[str | None, typer.Option(help="Address of the API.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the API.")] = None,
    redis_url: Annotated[str | None, typer.Option(help="Use this Redis or Valkey instead of an embedded one.")] = None,
    postgres_url: Annotated[str | None, typer.Option(help="Use this PostgreSQL instead of an embedded one.")] = None,
    text_runners: Annotated[int, typer.Option(min=0, help="Processes that serve the text lane.")] = 1,
    ocr_runners: Annotated[int, typer.Option(min=0, help="Processes that serve the ocr lane.")] = 1,
) -> None:
    """Run the whole system on this machine: stores, API, dispatcher, runners."""
    import asyncio

    from detectsched.embedded.up import UpOptions
    from detectsched.embedded.up import up as run

    options = UpOptions(
        data=data,
        host=host,
        port=port,
        redis_url=redis_url,
        postgres_url=postgres_url,
        text_runners=text_runners,
        ocr_runners=ocr_runners,
    )
    raise typer.Exit(asyncio.run(run(options)))


def api(
    host: Annotated[str | None, typer.Option(help="Address to listen on (DETECTSCHED_API_HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (DETECTSCHED_API_PORT).")] = None,
) -> None:
    """Serve the HTTP API."""
    from detectsched.api.server import ApiServer
    from detectsched.cli.process import run_daemon

    raise typer.Exit(
        run_daemon(
            "api",
            lambda stores: [ApiServer(stores.queue, stores.ledger, stores.blobs, stores.settings)],
            api={"host": host, "port": port},
        )
    )


def dispatcher() -> None:
    """Decide who is served next, and heal what others leave behind."""
    from detectsched.cli.process import run_daemon
    from detectsched.dispatcher.daemon import dispatcher_services

    raise typer.Exit(
        run_daemon("dispatcher", lambda stores: dispatcher_services(stores.queue, stores.ledger, stores.settings))
    )


def runner(
    lane: Annotated[str, typer.Option(help="Lane to serve, or several with commas: ocr,text.")],
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Run the OCR engine on a GPU; refused where none is usable.")
    ] = False,
    gpus: Annotated[
        str | None,
        typer.Argument(
            metavar="[GPUS]",
            help="After --gpu: which, by index or UUID, as 0,1; one engine process each.",
            show_default="the first visible",
        ),
    ] = None,
    engine: Annotated[str | None, typer.Option(help="auto, rapidocr or paddle (DETECTSCHED_OCR_ENGINE).")] = None,
    slots: Annotated[int | None, typer.Option(min=1, help="Images worked on at once, one engine process each.")] = None,
) -> None:
    """Examine the tasks of one or more lanes."""
    from detectsched.cli.process import run_daemon
    from detectsched.runner.daemon import runner_services

    if gpus and not gpu:
        raise typer.BadParameter("GPUs are named after --gpu, as in: --gpu 0,1", param_hint="GPUS")
    lanes = lane.replace(",", " ").split()
    raise typer.Exit(
        run_daemon(
            f"runner-{'-'.join(lanes)}",
            lambda stores: runner_services(stores.queue, stores.ledger, stores.blobs, stores.settings, lanes),
            ocr={"gpu": gpu or None, "gpus": tuple(gpus.replace(",", " ").split()) if gpus else None, "engine": engine},
            runner={"ocr_slots": slots},
        )
    )
