"""Keys for encrypted requests: made, shown to senders, retired."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import StringConstraints

from detectsched.api.auth import Admin, Submitter
from detectsched.api.bodies import read_optional_json
from detectsched.api.context import Context
from detectsched.api.control import actor_of
from detectsched.api.decisions import CreateEncryptionKey
from detectsched.api.openapi import optional_body, problems
from detectsched.api.schemas import ResponseModel
from detectsched.db import encryption_keys as keys
from detectsched.db.models import EncryptionKey
from detectsched.errors import NotFound
from detectsched.jwe import CONTENT_ENCRYPTION, KeyAlgorithm

router = APIRouter(prefix="/api/encryption-keys", tags=["encryption"])

Kid = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$"), Path(description="The `kid` of the key.")]


class EncryptionKeyView(ResponseModel):
    """A key for encrypted requests, and what a sender needs besides it."""

    kid: str
    algorithm: KeyAlgorithm
    """`alg` of the header."""
    content_encryption: str
    """`enc` of the header."""
    audience: str
    """`aud` of the header: the tenant."""
    public_key: dict[str, str]
    """As a JWK (RFC 7517)."""
    created_at: datetime
    retired_at: datetime | None
    """Since when it opens nothing more."""


class EncryptionKeyPage(ResponseModel):
    """All keys of a tenant; senders are given the first that is not retired."""

    items: list[EncryptionKeyView]


@router.post("", status_code=201, responses=problems(400, 409, 415), openapi_extra=optional_body("CreateEncryptionKey"))
async def create_encryption_key(request: Request, context: Context, caller: Admin) -> EncryptionKeyView:
    """Make a key, which senders are given from now on; earlier ones work until they are retired."""
    wanted = await read_optional_json(request, CreateEncryptionKey)
    row = await keys.create_encryption_key(context.ledger, caller.tenant, wanted.algorithm, by=actor_of(caller))
    return _view(row)


@router.get("", responses=problems())
async def list_encryption_keys(context: Context, caller: Admin) -> EncryptionKeyPage:
    """List the caller's tenant's keys, the newest first, retired ones included."""
    return EncryptionKeyPage(items=[_view(row) for row in await keys.encryption_keys(context.ledger, caller.tenant)])


@router.get("/current", responses=problems(404))
async def get_current_encryption_key(context: Context, caller: Submitter) -> EncryptionKeyView:
    """Get the key that a sender is to use: the newest that is not retired."""
    active = await keys.encryption_keys(context.ledger, caller.tenant, active=True)
    if not active:
        raise NotFound("the tenant has no encryption key: an admin makes one with POST /api/encryption-keys")
    return _view(active[0])


@router.post("/{kid}/retire", responses=problems(404))
async def retire_encryption_key(kid: Kid, context: Context, caller: Admin) -> EncryptionKeyView:
    """Retire a key: what was encrypted for it is not opened any more. That cannot be undone."""
    row = await keys.retire_encryption_key(context.ledger, caller.tenant, kid, by=actor_of(caller))
    context.opener.forget(caller.tenant, kid)
    return _view(row)


def _view(row: EncryptionKey) -> EncryptionKeyView:
    return EncryptionKeyView(
        kid=row.id,
        algorithm=KeyAlgorithm(row.algorithm),
        content_encryption=CONTENT_ENCRYPTION,
        audience=row.tenant,
        public_key=row.public_key,
        created_at=row.created_at,
        retired_at=row.retired_at,
    )
