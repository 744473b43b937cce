"""``detectsched encryption-key``: keys for encrypted requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from detectsched.cli.keys import with_ledger
from detectsched.task import DEFAULT_TENANT

if TYPE_CHECKING:
    from detectsched.db.models import EncryptionKey

app = typer.Typer(no_args_is_help=True, help="Keys for encrypted requests.", rich_markup_mode=None)

_BY = "command line"

Tenant = Annotated[str, typer.Option(help="Whose.")]


@app.command()
def create(
    tenant: Tenant = DEFAULT_TENANT,
    algorithm: Annotated[str, typer.Option(help="ECDH-ES+A256KW, or RSA-OAEP-256 for senders with RSA only.")] = (
        "ECDH-ES+A256KW"
    ),
) -> None:
    """Make a key and show its public part as a JWK, for senders; earlier keys work until they are retired."""
    from detectsched.db.audit import Actor
    from detectsched.db.encryption_keys import create_encryption_key
    from detectsched.errors import InvalidRequest
    from detectsched.jwe import KeyAlgorithm

    try:
        wanted = KeyAlgorithm(algorithm)
    except ValueError as error:
        raise InvalidRequest(f"{error}; the algorithms are: {', '.join(KeyAlgorithm)}") from error
    row = with_ledger(lambda ledger: create_encryption_key(ledger, tenant, wanted, by=Actor(_BY)))
    typer.echo(json.dumps(row.public_key, indent=2))


@app.command("list")
def list_(tenant: Tenant = DEFAULT_TENANT) -> None:
    """List keys, the newest first; senders are given the first that is not retired."""
    from detectsched.cli.output import table
    from detectsched.db.encryption_keys import encryption_keys

    rows = with_ledger(lambda ledger: encryption_keys(ledger, tenant))
    typer.echo("\n".join(table(("kid", "algorithm", "created", "retired"), map(_cells, rows))))


@app.command()
def retire(kid: Annotated[str, typer.Argument(help="Its kid.")], tenant: Tenant = DEFAULT_TENANT) -> None:
    """Have a key open nothing more; API processes forget it within DETECTSCHED_API_KEY_CACHE_SECONDS."""
    from detectsched.db.audit import Actor
    from detectsched.db.encryption_keys import retire_encryption_key

    with_ledger(lambda ledger: retire_encryption_key(ledger, tenant, kid, by=Actor(_BY)))


@app.command()
def rewrap() -> None:
    """Seal everything that a master key seals under the first one; then the others may be taken out of the settings."""
    from detectsched.db.rewrap import rewrap as run

    count = with_ledger(run)
    typer.echo(f"{count} keys and secrets sealed anew")


def _cells(row: EncryptionKey) -> tuple[object, ...]:
    return row.id, row.algorithm, row.created_at, row.retired_at
