"""Replacing the master key: what was sealed under earlier ones is sealed anew under the first of the settings."""

from __future__ import annotations

from typing import Any, Final

from detectsched.db import data_keys, encryption_keys
from detectsched.db.connection import Connection, Ledger
from detectsched.db.signing_secrets import is_sealed_by, opened_secret, sealed_secret
from detectsched.errors import ConfigurationError
from detectsched.sealing import master_of

_CHUNK: Final = 500
_CONTEXTS: Final = {"encryption_key": encryption_keys.context_of, "data_key": data_keys.context_of}

_KEPT: Final = "SELECT tenant, id, secret FROM webhook_secret WHERE id > $1 ORDER BY id LIMIT $2 FOR UPDATE"
_KEEP: Final = "UPDATE webhook_secret SET secret = $3 WHERE tenant = $1 AND id = $2"


async def rewrap(ledger: Ledger) -> int:
    """Return how many keys and webhook secrets, of whatever tenant, were sealed anew.

    What the keys seal stays as it is. Secrets that were kept before there was a master key are sealed as well. May be
    broken off and begun again, and run while everything else runs.

    Raises:
        ConfigurationError: there is no master key.
        SealBroken: one of the earlier master keys is not in the settings.
    """
    if ledger.master.current is None:
        raise ConfigurationError("there is no master key: set DETECTSCHED_ENCRYPTION_MASTER_KEYS")
    return sum([await _keys(ledger, table) for table in _CONTEXTS]) + await _secrets(ledger)


async def _keys(ledger: Ledger, table: str) -> int:
    count, last = 0, ("", "")
    while True:
        async with ledger.transaction() as connection:
            # ruff: noqa: S608 - the table is a constant of this file
            rows = await connection.fetch(
                f"SELECT tenant, id, sealed FROM {table} WHERE (tenant, id) > ($1, $2) ORDER BY tenant, id "
                f"LIMIT {_CHUNK} FOR UPDATE",
                *last,
            )
            for row in rows:
                if master_of(row["sealed"]) != ledger.master.current:
                    await _seal_key(connection, ledger, table, row)
                    count += 1
        if not rows:
            return count
        last = rows[-1]["tenant"], rows[-1]["id"]


async def _seal_key(connection: Connection, ledger: Ledger, table: str, row: Any) -> None:
    context = _CONTEXTS[table](row["tenant"], row["id"])
    sealed = ledger.master.seal(ledger.master.open(row["sealed"], context), context)
    update = f"UPDATE {table} SET sealed = $3 WHERE tenant = $1 AND id = $2"
    await connection.execute(update, row["tenant"], row["id"], sealed)


async def _secrets(ledger: Ledger) -> int:
    count, last = 0, 0
    while True:
        async with ledger.transaction() as connection:
            rows = await connection.fetch(_KEPT, last, _CHUNK)
            for row in rows:
                tenant, kept = row["tenant"], row["secret"]
                if not is_sealed_by(ledger.master, kept):
                    sealed = sealed_secret(ledger.master, tenant, opened_secret(ledger.master, tenant, kept))
                    await connection.execute(_KEEP, tenant, row["id"], sealed)
                    count += 1
        if not rows:
            return count
        last = rows[-1]["id"]
