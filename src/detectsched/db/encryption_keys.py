"""Keys for encrypted requests, several per tenant: the newest is handed to senders, all that are not retired open.

Private parts are sealed under a master key and bound to tenant and id, so that a row copied elsewhere opens nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from sqlmodel import col, func, select

from detectsched.clock import utc_now
from detectsched.db.audit import Actor, entry
from detectsched.db.connection import Ledger
from detectsched.db.models import EncryptionKey, Tenant
from detectsched.errors import Conflict, NotFound
from detectsched.jwe import KeyAlgorithm, PrivateKey, key_from_bytes, key_to_bytes, new_key, public_part

MOST_ACTIVE: Final = 20
"""Keys of one tenant that are not retired."""


async def create_encryption_key(
    ledger: Ledger, tenant: str, algorithm: KeyAlgorithm = KeyAlgorithm.ECDH, *, by: Actor
) -> EncryptionKey:
    """Make a key, which senders are given from now on; earlier ones go on opening requests until they are retired.

    Raises:
        Conflict: the server has no master key, or the tenant has too many keys.
        NotFound: there is no such tenant.
    """
    if ledger.master.current is None:
        raise Conflict("this server has no master key: its operator sets DETECTSCHED_ENCRYPTION_MASTER_KEYS")
    # An RSA key takes a good part of a second.
    key = await asyncio.to_thread(new_key, algorithm)
    public = public_part(key)
    kid = str(public["kid"])
    async with ledger.session() as session:
        # Locked, so that two at once do not both find room for one more.
        found = await session.exec(select(Tenant.id).where(Tenant.id == tenant).with_for_update())
        if found.first() is None:
            raise NotFound(f"there is no tenant {tenant!r}")
        active = select(func.count()).where(EncryptionKey.tenant == tenant, col(EncryptionKey.retired_at).is_(None))
        if (await session.exec(active)).one() >= MOST_ACTIVE:
            raise Conflict(f"the tenant has {MOST_ACTIVE} keys: retire those that no sender uses any more")
        row = EncryptionKey(
            tenant=tenant,
            id=kid,
            algorithm=algorithm.value,
            public_key=public,
            sealed=ledger.master.seal(key_to_bytes(key), context_of(tenant, kid)),
            created_at=utc_now(),
        )
        session.add(row)
        session.add(entry(tenant, by, "create_encryption_key", kid, {"algorithm": algorithm.value}))
    return row


async def encryption_keys(ledger: Ledger, tenant: str, *, active: bool = False) -> Sequence[EncryptionKey]:
    """Return a tenant's keys, the newest first, retired ones included unless only active ones are asked for."""
    query = (
        select(EncryptionKey)
        .where(EncryptionKey.tenant == tenant)
        .order_by(col(EncryptionKey.created_at).desc(), col(EncryptionKey.id))
    )
    if active:
        query = query.where(col(EncryptionKey.retired_at).is_(None))
    async with ledger.reading() as session:
        return (await session.exec(query)).all()


async def retire_encryption_key(ledger: Ledger, tenant: str, kid: str, *, by: Actor) -> EncryptionKey:
    """Have a key open nothing more, once the API's processes have forgotten it; again changes nothing.

    Raises:
        NotFound: the tenant has no such key.
    """
    async with ledger.session() as session:
        row = await session.get(EncryptionKey, (tenant, kid), with_for_update=True)
        if row is None:
            raise NotFound("there is no such encryption key")
        if row.retired_at is None:
            row.retired_at = utc_now()
            session.add(row)
            session.add(entry(tenant, by, "retire_encryption_key", kid, {}))
    return row


async def private_key(ledger: Ledger, tenant: str, kid: str) -> tuple[KeyAlgorithm, PrivateKey] | None:
    """Return a tenant's key and what it is for; None when the tenant has no such key, or has retired it.

    Raises:
        SealBroken: its master key is not in the settings, or it is damaged.
    """
    async with ledger.reading() as session:
        row = await session.get(EncryptionKey, (tenant, kid))
    if row is None or row.retired_at is not None:
        return None
    return KeyAlgorithm(row.algorithm), key_from_bytes(ledger.master.open(row.sealed, context_of(tenant, kid)))


def context_of(tenant: str, kid: str) -> str:
    """Return what a sealed private key is bound to."""
    return f"encryption key {kid} of {tenant}"
