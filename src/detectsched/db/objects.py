"""What is set for objects; an object without a row has the tenant's defaults and costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from detectsched.db.audit import Actor, record
from detectsched.db.connection import Ledger

_IS_KNOWN: Final = """
SELECT EXISTS (SELECT FROM object WHERE tenant = $1 AND name = $2)
    OR EXISTS (SELECT FROM task WHERE tenant = $1 AND object = $2)
"""

_SET_LISTS: Final = """
INSERT INTO object (tenant, name, word_lists) VALUES ($1, $2, $3)
ON CONFLICT (tenant, name) DO UPDATE SET word_lists = excluded.word_lists
"""


async def is_known(ledger: Ledger, tenant: str, name: str) -> bool:
    """Whether a tenant has set something for an object, or has a task of it."""
    async with ledger.connection() as connection:
        return bool(await connection.fetchval(_IS_KNOWN, tenant, name))


async def word_lists(ledger: Ledger, tenant: str, name: str) -> list[str] | None:
    """Return an object's own word lists; None: the tenant's default lists."""
    async with ledger.connection() as connection:
        lists = await connection.fetchval("SELECT word_lists FROM object WHERE tenant = $1 AND name = $2", tenant, name)
    return None if lists is None else list(lists)


async def set_word_lists(ledger: Ledger, tenant: str, name: str, lists: Sequence[str] | None, *, by: Actor) -> None:
    """Choose an object's own word lists; what is accepted already stays with those that it had."""
    chosen = None if lists is None else list(dict.fromkeys(lists))
    async with ledger.transaction() as connection:
        await connection.execute(_SET_LISTS, tenant, name, chosen)
        await record(connection, tenant, by, "set_word_lists", f"object:{name}", {"word_lists": chosen})
