"""API keys: ``ds_<id>_<secret>``; the id is looked up, of the secret only a hash is kept.

The secret is 256 random bits, so that one SHA-256 is as good as a slow hash and costs nothing per request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from sqlmodel import col, func, select

from detectsched.clock import utc_now
from detectsched.db.connection import Ledger
from detectsched.db.models import ApiKey, Tenant
from detectsched.errors import InvalidRequest, NotFound, Unauthenticated

_KEY: Final = re.compile(r"ds_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
_TENANT: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_NOBODY: Final = hashlib.sha256(b"").digest()


class Scope(StrEnum):
    """What a key may do."""

    SUBMIT = "submit"
    """Submit and cancel tasks."""
    READ = "read"
    """Read tasks and results."""
    ADMIN = "admin"
    """Everything of the key's tenant: word lists, devices, dead letters."""
    OPERATE = "operate"
    """The platform, which all tenants share: lanes, runners, the share of a tenant."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling."""

    key_id: str
    tenant: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Whether the key has a scope; an admin's has all that concern its tenant alone."""
        return scope in self.scopes or (Scope.ADMIN in self.scopes and scope is not Scope.OPERATE)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


async def create_key(
    ledger: Ledger,
    *,
    tenant: str,
    name: str,
    scopes: Iterable[Scope],
    expires_at: datetime | None = None,
) -> str:
    """Make a key (and its tenant, when that is new) and return it; it cannot be shown again.

    Raises:
        InvalidRequest: the tenant's id is not of lower-case letters, digits, ``-`` and ``_``.
    """
    if not _TENANT.fullmatch(tenant):
        raise InvalidRequest(
            f"{tenant[:64]!r} is not a tenant id: up to 40 lower-case letters, digits, - and _", field="tenant"
        )
    key_id = "".join(secrets.choice("abcdefghijkmnpqrstuvwxyz23456789") for _ in range(12))
    secret = secrets.token_urlsafe(32)
    async with ledger.session() as session:
        if await session.get(Tenant, tenant) is None:
            session.add(Tenant(id=tenant, name=tenant))
            await session.flush()
        session.add(
            ApiKey(
                id=key_id,
                tenant=tenant,
                name=name,
                secret_hash=_digest(secret),
                scopes=sorted(scope.value for scope in scopes),
                expires_at=expires_at,
            )
        )
    return f"ds_{key_id}_{secret}"


async def authenticate(ledger: Ledger, key: str) -> Principal:
    """Return who a key belongs to.

    Raises:
        Unauthenticated: malformed, unknown, wrong, expired and revoked look the same.
    """
    refusal = Unauthenticated(
        "the API key is missing, unknown, expired or revoked; send it as 'Authorization: Bearer ds_…'"
    )
    match = _KEY.fullmatch(key)
    if match is None:
        raise refusal
    async with ledger.reading() as session:
        # By the ledger's clock, which is the same for every API.
        found = (await session.exec(select(ApiKey, func.now()).where(ApiKey.id == match[1]))).one_or_none()
    row, now = found or (None, None)
    # Compared also on a miss, so that the time taken does not tell which ids exist.
    good = hmac.compare_digest(row.secret_hash if row else _NOBODY, _digest(match[2]))
    if row is None or not good or row.revoked_at is not None:
        raise refusal
    if row.expires_at is not None and now is not None and row.expires_at <= now:
        raise refusal
    return Principal(row.id, row.tenant, frozenset(Scope(scope) for scope in row.scopes))


async def list_keys(ledger: Ledger, tenant: str | None = None) -> list[ApiKey]:
    """Return the keys of a tenant, or of all, oldest first."""
    query = select(ApiKey).order_by(col(ApiKey.created_at))
    if tenant is not None:
        query = query.where(ApiKey.tenant == tenant)
    async with ledger.reading() as session:
        return list((await session.exec(query)).all())


async def revoke_key(ledger: Ledger, key_id: str) -> None:
    """Make a key useless, at the latest after the API's key cache has forgotten it.

    Raises:
        NotFound: no such key.
    """
    async with ledger.session() as session:
        row = await session.get(ApiKey, key_id)
        if row is None:
            raise NotFound(f"there is no key {key_id!r}")
        row.revoked_at = row.revoked_at or utc_now()
        session.add(row)
