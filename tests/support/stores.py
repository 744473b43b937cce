"""Which Redis and which PostgreSQL the tests run on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from detectsched.embedded.servers import EmbeddedPostgres, EmbeddedValkey

# Taken out of the environment: to the programs under test they would be misspelt settings.
_REDIS: Final = os.environ.pop("DETECTSCHED_TEST_REDIS", "embedded")
_POSTGRES: Final = os.environ.pop("DETECTSCHED_TEST_POSTGRES", "embedded")

_DEBIAN_REDIS: Final = Path("/usr/bin/redis-server")
_DEBIAN_POSTGRES: Final = Path("/usr/lib/postgresql/15/bin")


REDIS_BINARY: Final = {"embedded": None, "debian7": _DEBIAN_REDIS}[_REDIS]
"""The server's program; None for the embedded one."""
POSTGRES_BINARIES: Final = {"embedded": None, "debian15": _DEBIAN_POSTGRES}[_POSTGRES]
"""The directory of the server's programs; None for the embedded ones."""


def redis_for_tests(data: Path) -> EmbeddedValkey:
    """Return the server of ``DETECTSCHED_TEST_REDIS``: ``embedded`` (Valkey 9) or ``debian7``."""
    return EmbeddedValkey(data, durable=False, binary=REDIS_BINARY)


def postgres_for_tests(data: Path) -> EmbeddedPostgres:
    """Return the server of ``DETECTSCHED_TEST_POSTGRES``: ``embedded`` (PostgreSQL 18) or ``debian15``."""
    return EmbeddedPostgres(data, durable=False, binary_directory=POSTGRES_BINARIES)
