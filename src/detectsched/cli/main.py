"""All commands of ``detectsched``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from detectsched import __version__
from detectsched.cli import (
    audit,
    database,
    device,
    dlq,
    encryption,
    keys,
    lane,
    report,
    runnerctl,
    servers,
    simulate,
    task,
    tenant,
    tools,
    words,
)
from detectsched.cli.exits import exit_code_of

_HELP = "Fair, durable, resource-aware scheduling of OCR and sensitive-word detection."


class _App(typer.Typer):
    """Turns our errors into a sentence on standard error and an exit status, instead of a stack trace."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line."""
        return exit_code_of(lambda: super(_App, self).__call__(*args, **kwargs))


app = _App(no_args_is_help=True, help=_HELP, pretty_exceptions_enable=False, rich_markup_mode=None)
app.add_typer(database.app, name="db")
app.add_typer(keys.app, name="key")
for _name, _group in {
    "encryption-key": encryption.app,
    "task": task.app,
    "device": device.app,
    "object": device.objects,
    "tenant": tenant.app,
    "lane": lane.app,
    "runners": runnerctl.app,
    "dlq": dlq.app,
    "words": words.app,
    "report": report.app,
    "audit": audit.app,
}.items():
    app.add_typer(_group, name=_name)
app.add_typer(tools.bench, name="bench")
_COMMANDS: tuple[Callable[..., None], ...] = (
    servers.up,
    servers.api,
    servers.dispatcher,
    servers.runner,
    tools.demo,
    simulate.simulate,
)
for _command in _COMMANDS:
    app.command()(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"detectsched {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Fair, durable, resource-aware scheduling of OCR and sensitive-word detection.

    Settings are read from DETECTSCHED_* variables (docs/settings.md); options win over them.
    """
