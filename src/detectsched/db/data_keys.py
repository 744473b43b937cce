"""Data keys: what the tasks of a tenant are sealed under when it wants them encrypted at rest.

A key is made when a tenant asks for the first time, and never changes; tasks name the key that they are sealed under,
so that plain and sealed ones stand side by side.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from detectsched.clock import monotonic
from detectsched.db.models import DataKeyRow
from detectsched.errors import Conflict, SealBroken
from detectsched.sealing import DataKey, MasterKeys, Seal
from detectsched.task import new_task_id

_SECONDS: Final = 5.0
"""How long it is believed whether a tenant wants its tasks sealed."""
_MOST_CACHED: Final = 10_000
_KEY_BYTES: Final = 32
_UNKNOWN: Final = "?"
"""No key has this id."""

_Name = tuple[str, str]

_CURRENT: Final = """
SELECT k.id FROM tenant n LEFT JOIN data_key k ON k.tenant = n.id
WHERE n.id = $1 AND n.encrypt_at_rest ORDER BY k.created_at DESC, k.id DESC LIMIT 1
"""

_LOAD: Final = """
SELECT k.tenant, k.id, k.sealed FROM unnest($1::text[], $2::text[]) AS g (tenant, id) JOIN data_key k USING (tenant, id)
"""


@dataclass(frozen=True, slots=True)
class OpenKeys:
    """Data keys by tenant and id, or why one cannot be opened."""

    found: Mapping[_Name, DataKey | SealBroken]

    def key(self, tenant: str, key_id: str) -> DataKey:
        """Return a key.

        Raises:
            SealBroken: it cannot be opened.
        """
        key = self.found.get((tenant, key_id))
        if isinstance(key, DataKey):
            return key
        raise key or SealBroken(f"the data key {key_id} of {tenant} is gone")

    def seal(self, tenant: str, key_id: str | None, task_id: UUID) -> Seal | None:
        """Return what a task is sealed with; None of one that is plain.

        Raises:
            SealBroken: its key cannot be opened.
        """
        return None if key_id is None else Seal(self.key(tenant, key_id), task_id)


class DataKeys:
    """The data keys of all tenants, as one process has opened them; ``lend`` gives a connection for one statement."""

    def __init__(self, master: MasterKeys, lend: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._master = master
        self._lend = lend
        self._open: OrderedDict[_Name, DataKey] = OrderedDict()
        self._wanted: OrderedDict[str, tuple[float, str | None]] = OrderedDict()
        self._asking = asyncio.Lock()

    async def current(self, tenant: str) -> DataKey | None:
        """Return what a tenant's new tasks are sealed under; None when it does not want them sealed.

        Raises:
            SealBroken: it wants that, and the key cannot be opened.
        """
        key_id = self._believed(tenant)
        if key_id is _UNKNOWN:
            # One asks for all who ask at the same moment.
            async with self._asking:
                key_id = self._believed(tenant)
                if key_id is _UNKNOWN:
                    key_id = await self._ask(tenant)
        return None if key_id is None else (await self.load([(tenant, key_id)])).key(tenant, key_id)

    def _believed(self, tenant: str) -> str | None:
        until, key_id = self._wanted.get(tenant, (0.0, _UNKNOWN))
        return key_id if monotonic() < until else _UNKNOWN

    async def _ask(self, tenant: str) -> str | None:
        async with self._lend() as connection:
            row = await connection.fetchrow(_CURRENT, tenant)
        # Who wants seals and has no key (somebody has deleted it) is refused, never stored plain.
        key_id = None if row is None else row["id"] or _UNKNOWN
        self._wanted[tenant] = monotonic() + _SECONDS, key_id
        if len(self._wanted) > _MOST_CACHED:
            self._wanted.popitem(last=False)
        return key_id

    async def load(self, names: Iterable[tuple[str, str | None]], connection: Any = None) -> OpenKeys:
        """Return keys by tenant and id; an id None is that of a plain task, and is left out.

        Whoever holds a connection gives it: two for one caller could wait for each other.
        """
        wanted = {(tenant, key_id) for tenant, key_id in names if key_id is not None}
        found: dict[_Name, DataKey | SealBroken] = {name: self._open[name] for name in wanted if name in self._open}
        missing = sorted(wanted - found.keys())
        if missing and connection is not None:
            found |= await self._fetched(connection, missing)
        elif missing:
            async with self._lend() as lent:
                found |= await self._fetched(lent, missing)
        return OpenKeys(found)

    def forget(self, tenant: str) -> None:
        """Look up again, when it is needed next, whether a tenant wants its tasks sealed."""
        self._wanted.pop(tenant, None)

    async def _fetched(self, connection: Any, names: Sequence[_Name]) -> dict[_Name, DataKey | SealBroken]:
        rows = await connection.fetch(_LOAD, [tenant for tenant, _ in names], [key_id for _, key_id in names])
        return {(row["tenant"], row["id"]): self._opened(row) for row in rows}

    def _opened(self, row: Any) -> DataKey | SealBroken:
        tenant, key_id = row["tenant"], row["id"]
        try:
            key = DataKey(key_id, tenant, self._master.open(row["sealed"], context_of(tenant, key_id)))
        except SealBroken as error:
            return error
        self._open[tenant, key_id] = key
        if len(self._open) > _MOST_CACHED:
            self._open.popitem(last=False)
        return key


async def see_to_data_key(session: AsyncSession, master: MasterKeys, tenant: str) -> None:
    """Make a tenant's data key, unless it has one; its row must be locked.

    Raises:
        Conflict: the server has no master key.
    """
    if master.current is None:
        raise Conflict("this server has no master key: its operator sets DETECTSCHED_ENCRYPTION_MASTER_KEYS")
    if (await session.exec(select(col(DataKeyRow.id)).where(DataKeyRow.tenant == tenant).limit(1))).first() is None:
        key_id = new_task_id().hex
        sealed = master.seal(os.urandom(_KEY_BYTES), context_of(tenant, key_id))
        session.add(DataKeyRow(tenant=tenant, id=key_id, sealed=sealed))


def context_of(tenant: str, key_id: str) -> str:
    """Return what a sealed data key is bound to."""
    return f"data key {key_id} of {tenant}"
