"""Becomes another program that dies with its parent.

``python -I -S leash.py --parent PID --signal N [--user UID:GID [--reach]] -- PROGRAM ARGUMENTS…``

Run as a file, it imports nothing of this package. It is one small program instead of a ``preexec_fn``, which may
deadlock in a process with threads, and instead of code in each program's start, which Valkey and PostgreSQL cannot run.

``--user UID:GID`` drops root first, as PostgreSQL demands. Data or an installation below a private directory (such as
``/root``) would then be out of reach; ``--reach`` keeps the one capability that passes it
(CAP_DAC_OVERRIDE), which spares opening somebody's home directory to everybody.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
from typing import Any, Final

# linux/prctl.h, linux/securebits.h and linux/capability.h
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_KEEPCAPS: Final = 8
_PR_SET_SECUREBITS: Final = 28
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_RAISE: Final = 2
_SECBIT_NO_SETUID_FIXUP: Final = 1 << 2
_CAPABILITY_VERSION_3: Final = 0x20080522
_CAP_DAC_OVERRIDE: Final = 1
_CAP_SETPCAP: Final = 8

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Read the command line and become the program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--signal", type=int, required=True)
    parser.add_argument("--user")
    parser.add_argument("--reach", action="store_true")
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    if options.user:
        uid, gid = map(int, options.user.split(":"))
        drop_root(uid, gid, reach=options.reach)
    # Last, because a change of credentials clears it.
    _prctl(_PR_SET_PDEATHSIG, options.signal)
    if os.getppid() != options.parent:
        sys.exit("the parent died first")
    os.execv(options.program[0], options.program)  # noqa: S606 - that is the point


def drop_root(uid: int, gid: int, *, reach: bool) -> None:
    """Become another user for good; of the capabilities keep at most the one that passes private directories."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    if reach:
        _prctl(_PR_SET_KEEPCAPS, 1)
    os.setresuid(uid, uid, uid)
    if not reach:
        return
    kept = 1 << _CAP_DAC_OVERRIDE
    _set_capabilities(kept | 1 << _CAP_SETPCAP, inheritable=kept)
    # access(2) would otherwise judge by the real user alone, and PostgreSQL asks it about its own binary.
    _prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP)
    _set_capabilities(kept, inheritable=kept)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE)


def _set_capabilities(granted: int, *, inheritable: int) -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # Two triples (effective, permitted, inheritable), for capabilities 0-31 and 32-63.
    data = (ctypes.c_uint32 * 6)(granted, granted, inheritable, 0, 0, 0)
    _check(_libc.capset(header, data))


def _prctl(option: int, first: int, second: int = 0) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(first), ctypes.c_ulong(second), ctypes.c_ulong(0), ctypes.c_ulong(0)))


def _check(answer: Any) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()
