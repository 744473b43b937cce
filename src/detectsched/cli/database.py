"""``detectsched db``: the schema of the ledger."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, help="The database schema.", rich_markup_mode=None)


@app.command()
def upgrade() -> None:
    """Bring the database to this release's schema; safe to run from several places at once."""
    import asyncio

    from detectsched.db import migrate
    from detectsched.settings import load_settings

    typer.echo(asyncio.run(migrate.upgrade(load_settings().postgres)))


@app.command()
def current() -> None:
    """Show which migration the database is at."""
    import asyncio

    from detectsched.db import migrate
    from detectsched.settings import load_settings

    typer.echo(asyncio.run(migrate.current_revision(load_settings().postgres)) or "none")


@app.command()
def check() -> None:
    """Fail unless this release can work on the database as it is."""
    import asyncio

    from detectsched.db import migrate
    from detectsched.settings import load_settings

    typer.echo(asyncio.run(migrate.check(load_settings().postgres)))
