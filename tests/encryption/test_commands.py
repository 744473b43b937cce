"""``detectsched encryption-key``, and the client of docs/encryption.md."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import sys
from pathlib import Path

import httpx

from tests.api.rig import Rig
from tests.cli.conftest import Shell, postgres_variable, shell
from tests.encryption.conftest import MASTER_KEY

__all__ = ["postgres_variable", "shell"]

_DOCUMENT = Path(__file__).parents[2] / "docs" / "encryption.md"


async def test_keys_are_made_listed_and_retired(
    rig: Rig, shell: Shell, postgres_variable: dict[str, str], client: httpx.AsyncClient
) -> None:
    """The public part is shown, the newest first; what a retired one is for is visible."""
    variables = postgres_variable | {"DETECTSCHED_ENCRYPTION_MASTER_KEYS": MASTER_KEY}
    first = (await shell("encryption-key", "create", "--tenant", "acme", **variables)).document
    second = await shell("encryption-key", "create", "--tenant", "acme", "--algorithm", "RSA-OAEP-256", **variables)
    assert (first["kty"], second.document["kty"]) == ("EC", "RSA")
    current = (await client.get("/api/encryption-keys/current")).json()
    assert current["public_key"] == second.document
    kid = second.document["kid"]
    assert (await shell("encryption-key", "retire", kid, "--tenant", "acme", **variables)).status == 0
    listed = await shell("encryption-key", "list", "--tenant", "acme", **variables)
    lines = listed.out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [kid, first["kid"]]
    assert [line.split()[-1] == "-" for line in lines] == [False, True]
    actors = {row["actor"] for row in await _audit(rig)}
    assert actors == {"command line"}


async def test_commands_say_what_to_change(shell: Shell, postgres_variable: dict[str, str]) -> None:
    """No master key, a wrong one (not shown), an algorithm and a tenant that do not exist."""
    create = ("encryption-key", "create", "--tenant", "acme")
    without = await shell(*create, **postgres_variable)
    assert without.status != 0
    assert "DETECTSCHED_ENCRYPTION_MASTER_KEYS" in without.err
    wrong = await shell(*create, **postgres_variable, DETECTSCHED_ENCRYPTION_MASTER_KEYS=f"{MASTER_KEY},c2VjcmV0")
    assert "key 2 is not 32 bytes in base64" in wrong.err
    assert "c2VjcmV0" not in wrong.err
    variables = postgres_variable | {"DETECTSCHED_ENCRYPTION_MASTER_KEYS": MASTER_KEY}
    assert "ECDH-ES+A256KW, RSA-OAEP-256" in (await shell(*create, "--algorithm", "dir", **variables)).err
    assert "no tenant 'nobody'" in (await shell("encryption-key", "create", "--tenant", "nobody", **variables)).err


async def test_the_master_key_is_replaced_and_encryption_turned_on(
    rig: Rig, shell: Shell, postgres_variable: dict[str, str]
) -> None:
    """Keys are sealed anew once; a tenant turns encryption at rest on and off."""
    assert (await shell("tenant", "set", "--encrypt-at-rest", "-o", "json")).document["encrypt_at_rest"] is True
    keys = f"{base64.b64encode(b'another master key of 32 bytes!!').decode()},{MASTER_KEY}"
    variables = postgres_variable | {"DETECTSCHED_ENCRYPTION_MASTER_KEYS": keys}
    assert (await shell("encryption-key", "rewrap", **variables)).out == "1 keys and secrets sealed anew\n"
    assert (await shell("encryption-key", "rewrap", **variables)).out == "0 keys and secrets sealed anew\n"
    assert "encrypt_at_rest  no" in (await shell("tenant", "set", "--plain-at-rest")).out


async def test_the_client_of_the_documentation_works(rig: Rig, shell: Shell, client: httpx.AsyncClient) -> None:
    """What docs/encryption.md shows is run as it stands, and its text arrives."""
    await client.post("/api/encryption-keys")
    [program] = re.findall(r"```python\n(.*?)```", _DOCUMENT.read_text(), re.DOTALL)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        "-c",
        program,
        env={**os.environ, **shell.variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    [row] = await rig.rows()
    assert (str(row["id"]), row["text"]) == (out.decode().strip(), "for your eyes only")


async def _audit(rig: Rig) -> list[dict[str, object]]:
    async with rig.ledger.connection() as connection:
        return [dict(row) for row in await connection.fetch("SELECT actor FROM audit_log")]
