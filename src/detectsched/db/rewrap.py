"""Replacing the master key: what was sealed under earlier ones is sealed anew under the first of the settings."""

from __future__ import annotations

from typing import Final

from detectsched.db import data_keys, encryption_keys
from detectsched.db.connection import Ledger
from detectsched.errors import ConfigurationError
from detectsched.sealing import master_of

_CHUNK: Final = 500
_CONTEXTS: Final = {"encryption_key": encryption_keys.context_of, "data_key": data_keys.context_of}


async def rewrap(ledger: Ledger) -> int:
    """Return how many keys, of whatever tenant, were sealed anew; what they seal themselves stays as it is.

    May be broken off and begun again, and run while everything else runs.

    Raises:
        ConfigurationError: there is no master key.
        SealBroken: one of the earlier master keys is not in the settings.
    """
    if ledger.master.current is None:
        raise ConfigurationError("there is no master key: set DETECTSCHED_ENCRYPTION_MASTER_KEYS")
    return sum([await _table(ledger, table) for table in _CONTEXTS])


async def _table(ledger: Ledger, table: str) -> int:
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
                if master_of(row["sealed"]) == ledger.master.current:
                    continue
                context = _CONTEXTS[table](row["tenant"], row["id"])
                sealed = ledger.master.seal(ledger.master.open(row["sealed"], context), context)
                update = f"UPDATE {table} SET sealed = $3 WHERE tenant = $1 AND id = $2"
                await connection.execute(update, row["tenant"], row["id"], sealed)
                count += 1
        if not rows:
            return count
        last = rows[-1]["tenant"], rows[-1]["id"]
