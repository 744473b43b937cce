"""The first API key of a new system, so that its owner can begin."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from detectsched.db.api_keys import Scope, create_key, list_keys
from detectsched.db.connection import Ledger
from detectsched.settings import PostgresSettings
from detectsched.task import DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class FirstKey:
    """The key (None where there are keys, but not here), and whether it has just been made."""

    key: str | None
    new: bool


async def first_key(postgres: PostgresSettings, file: Path) -> FirstKey:
    """Return the key of all scopes kept in ``file``; make it, and the file (0600), if the system has no key at all.

    Later starts make none, even if the file is gone: whoever revoked or deleted a key meant it.
    """
    ledger = Ledger(postgres)
    try:
        if await list_keys(ledger):
            return FirstKey(_kept(file), new=False)
        key = await create_key(
            ledger, tenant=DEFAULT_TENANT, name="first key, made by detectsched up", scopes=list(Scope)
        )
    finally:
        await ledger.close()
    _keep(file, key)
    return FirstKey(key, new=True)


def _kept(file: Path) -> str | None:
    return file.read_text().strip() if file.is_file() else None


def _keep(file: Path, key: str) -> None:
    # Made anew, so that an older file's wider mode does not stay.
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as output:
        output.write(key + "\n")
