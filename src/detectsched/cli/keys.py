"""``detectsched key``: API keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from detectsched.errors import InvalidRequest
from detectsched.task import DEFAULT_TENANT

if TYPE_CHECKING:
    from detectsched.db.connection import Ledger

app = typer.Typer(no_args_is_help=True, help="API keys.", rich_markup_mode=None)

T = TypeVar("T")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What it is for, for people.")],
    tenant: Annotated[str, typer.Option(help="Whose key; a new tenant is made.")] = DEFAULT_TENANT,
    scopes: Annotated[str, typer.Option(help="submit, read, admin, operate; several with commas.")] = "submit,read",
    expires_days: Annotated[int | None, typer.Option(min=1, help="Days until it expires.")] = None,
) -> None:
    """Make a key and show it, once."""
    from datetime import timedelta

    from detectsched.clock import utc_now
    from detectsched.db.api_keys import Scope, create_key

    try:
        wanted = [Scope(scope) for scope in scopes.replace(",", " ").split()]
    except ValueError as error:
        raise InvalidRequest(f"{error}; the scopes are: {', '.join(Scope)}") from error
    expires = None if expires_days is None else utc_now() + timedelta(days=expires_days)
    typer.echo(
        with_ledger(lambda ledger: create_key(ledger, tenant=tenant, name=name, scopes=wanted, expires_at=expires))
    )


@app.command("list")
def list_(tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None) -> None:
    """List keys; secrets are not kept and cannot be shown."""
    from rich import print as show
    from rich.table import Column, Table

    from detectsched.db.api_keys import list_keys

    table = Table(Column("id", no_wrap=True), "tenant", "name", "scopes", "created", "expires", "revoked")
    for key in with_ledger(lambda ledger: list_keys(ledger, tenant)):
        times = (key.created_at, key.expires_at, key.revoked_at)
        table.add_row(
            key.id,
            key.tenant,
            key.name,
            ",".join(key.scopes),
            *(f"{time:%Y-%m-%d %H:%M}" if time else "" for time in times),
        )
    show(table)


@app.command()
def revoke(key_id: Annotated[str, typer.Argument(help="The part between ds_ and the secret.")]) -> None:
    """Make a key useless; running API processes forget it within DETECTSCHED_API_KEY_CACHE_SECONDS."""
    from detectsched.db.api_keys import revoke_key

    with_ledger(lambda ledger: revoke_key(ledger, key_id))


def with_ledger(action: Callable[[Ledger], Awaitable[T]]) -> T:
    """Do something with the ledger of the settings."""
    import asyncio

    from detectsched.db.connection import Ledger
    from detectsched.settings import load_settings

    async def run() -> T:
        settings = load_settings()
        ledger = Ledger(settings.postgres, settings.encryption)
        try:
            return await action(ledger)
        finally:
            await ledger.close()

    return asyncio.run(run())
