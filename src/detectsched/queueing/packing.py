"""Connections that write their commands in C.

With hiredis, redis-py reads answers in C, but only its synchronous client writes commands so: its asyncio client needs
about 2 µs of Python for each argument, and a script call that queues fifty tasks has four hundred.
"""

from __future__ import annotations

from typing import Any

import hiredis


def packing(kind: Any) -> Any:
    """Return connections of this kind (a class of redis.asyncio) whose commands are packed by hiredis."""

    class PackingConnection(kind):  # type: ignore[misc]  # which kind it is, the URL decides
        def pack_command(self, *args: Any) -> list[bytes]:
            name, *rest = args
            # redis-py gives 'CONFIG SET' as one argument; the server wants two.
            words = name.encode().split() if isinstance(name, str) else name.split()
            try:
                return [hiredis.pack_command((*words, *rest))]
            except TypeError:
                # An argument of a rarer type, or of none that can be sent: redis-py knows what to do or to say.
                return list(super().pack_command(*args))

    return PackingConnection
