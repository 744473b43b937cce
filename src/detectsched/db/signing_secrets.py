"""Webhook secrets as they are kept: sealed under the master key of the installation, if there is one."""

from __future__ import annotations

import base64
from typing import Final

from detectsched.sealing import MasterKeys, master_of

_SEALED: Final = "sealed:"


def sealed_secret(master: MasterKeys, tenant: str, secret: str) -> str:
    """Return what is to be kept of a secret; the secret itself where there is no master key."""
    if master.current is None:
        return secret
    return _SEALED + base64.b64encode(master.seal(secret.encode(), _context(tenant))).decode()


def opened_secret(master: MasterKeys, tenant: str, kept: str) -> str:
    """Return the secret of what was kept; one that was kept before there was a master key is as it is.

    Raises:
        SealBroken: its master key is not there any more.
    """
    if not kept.startswith(_SEALED):
        return kept
    return master.open(base64.b64decode(kept.removeprefix(_SEALED)), _context(tenant)).decode()


def is_sealed_by(master: MasterKeys, kept: str) -> bool:
    """Whether what was kept is sealed under the current master key."""
    return kept.startswith(_SEALED) and master_of(base64.b64decode(kept.removeprefix(_SEALED))) == master.current


def _context(tenant: str) -> str:
    return f"webhook secret of {tenant}"
