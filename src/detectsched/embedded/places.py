"""Directories, sockets, ports and log files of the embedded servers, and the user that PostgreSQL runs as."""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import socket
import stat
import tempfile
from pathlib import Path
from typing import Final

from detectsched.embedded.process import RunAs
from detectsched.errors import ConfigurationError

_LONGEST_SOCKET_PATH: Final = 107  # unix(7): sun_path has 108 bytes, the last of them zero
_LOG_BYTES: Final = 10_000_000


class LogFile:
    """A file of log lines; the one before it is kept as ``NAME.1``, and so is one that has grown past 10 MB."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rotate()

    def write(self, line: str) -> None:
        """Append a line."""
        # Opened each time: these servers say little, and there is nothing to close at the end.
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            size = file.tell()
        if size > _LOG_BYTES:
            self._rotate()

    def _rotate(self) -> None:
        if self.path.exists():
            self.path.replace(self.path.with_name(self.path.name + ".1"))


def socket_directory(data: Path, name: str) -> Path:
    """Return where the socket ``name`` goes: the data directory, or a short one where that path is too long."""
    if len(os.fsencode(data / name)) <= _LONGEST_SOCKET_PATH:
        return data
    digest = hashlib.sha256(os.fsencode(data)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"detectsched-{os.getuid()}-{digest}"


def make_private(directory: Path, owner: RunAs | None = None) -> None:
    """Make a directory that only its owner may enter (us, or the user given), parents included.

    Raises:
        ConfigurationError: it belongs to somebody else.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    ensure_ours(directory, owner)
    directory.chmod(0o700)
    if owner is not None:
        os.chown(directory, owner.uid, owner.gid)


def ensure_ours(directory: Path, owner: RunAs | None = None) -> None:
    """Check that a directory is one, and belongs to us or the user given.

    Raises:
        ConfigurationError: it does not.
    """
    found = directory.lstat()
    uid = os.getuid() if owner is None else owner.uid
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {uid, os.getuid()}:
        raise ConfigurationError(
            f"{directory} belongs to user {_user_name(found.st_uid)}: start as that user, or choose other data"
        )


def who_runs_postgres(data: Path, binary: Path) -> RunAs | None:
    """Return the user to become for PostgreSQL; None (stay) unless we are root."""
    if os.getuid() != 0:
        return None
    owner = data.stat().st_uid
    user = pwd.getpwuid(owner) if owner != 0 else _first_user("postgres", "nobody")
    return RunAs(user.pw_uid, user.pw_gid, reach=not all(map(_is_open, (data.parent, binary))))


def ensure_port_is_free(host: str, port: int, what: str, option: str | None = None) -> None:
    """Check that one can listen on a port; 0 (any free one) passes wherever the address is good.

    Args:
        host: address to listen on.
        port: number of the port.
        what: beginning of the message, as "the API cannot listen".
        option: the command-line option that names another port.

    Raises:
        ConfigurationError: it is taken, reserved, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers do: connections of a server that has just ended do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                other = f"give another port with {option}" if option else "choose another port"
                advice = f"another program listens there (`ss -ltnp` shows which): stop it, or {other}"
            else:
                advice = f"{(error.strerror or str(error)).lower()}: choose another address or port"
            raise ConfigurationError(f"{what} on {host} port {port}: {advice}") from error


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_open(path: Path) -> bool:
    """Whether everybody may enter (read and run, for a file) a path."""
    path = path.resolve()
    last = stat.S_IXOTH if path.is_dir() else stat.S_IROTH | stat.S_IXOTH
    return path.stat().st_mode & last == last and all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)


def _first_user(*names: str) -> pwd.struct_passwd:
    for name in names:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ConfigurationError(
        "PostgreSQL does not run as root, and there is neither a user postgres nor nobody: start as an ordinary user"
    )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
