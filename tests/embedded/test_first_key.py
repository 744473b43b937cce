"""The key that a new system begins with."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from detectsched.db.api_keys import Scope, authenticate, list_keys, revoke_key
from detectsched.db.connection import Ledger
from detectsched.embedded.first_key import first_key
from detectsched.settings import PostgresSettings


async def test_it_is_made_once_and_kept(postgres_url: str, tmp_path: Path) -> None:
    """An admin key in a file for its owner alone; the next start finds it there."""
    postgres, file = PostgresSettings(url=SecretStr(postgres_url)), tmp_path / "admin.key"
    file.write_text("of another system")
    file.chmod(0o644)
    made = await first_key(postgres, file)
    assert made.new
    assert made.key is not None
    assert file.read_text() == f"{made.key}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    found = await first_key(postgres, file)
    assert (found.key, found.new) == (made.key, False)
    ledger = Ledger(postgres)
    principal = await authenticate(ledger, made.key)
    await ledger.close()
    assert principal.may(Scope.ADMIN)


async def test_no_second_one_is_made(postgres_url: str, tmp_path: Path) -> None:
    """Neither on another machine nor after it was revoked."""
    postgres, file = PostgresSettings(url=SecretStr(postgres_url)), tmp_path / "admin.key"
    await first_key(postgres, file)
    elsewhere = await first_key(postgres, tmp_path / "elsewhere.key")
    assert (elsewhere.key, elsewhere.new) == (None, False)
    ledger = Ledger(postgres)
    (key,) = await list_keys(ledger)
    await revoke_key(ledger, key.id)
    file.unlink()
    again = await first_key(postgres, file)
    assert (again.key, again.new) == (None, False)
    assert len(await list_keys(ledger)) == 1
    await ledger.close()
