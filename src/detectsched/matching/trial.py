"""Trying word lists on one text in a process of its own: ``python -m detectsched.matching.trial``.

Compiling a hundred thousand words holds the GIL, and searching a text for somebody's new regular expressions takes as
long as it takes: neither belongs into a process that serves requests, and nothing of it is needed a second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Final

import msgspec

from detectsched.detection import Detection, ListVersion, Text
from detectsched.errors import InvalidRequest, TaskFailed
from detectsched.matching.apart import decode_contents, encode_contents
from detectsched.matching.judge import judge_of
from detectsched.wordlist import ListContent

_REFUSED: Final = 2
"""Exit status: a list is wrong; the answer says why."""
_FAILED: Final = 3
"""Exit status: a rule could not be run; the answer says why."""


class _Sent(msgspec.Struct):
    text: Text
    versions: list[ListVersion]
    contents: bytes


async def try_lists(lists: Mapping[ListVersion, ListContent], text: Text, *, seconds: float) -> Detection:
    """Return what the lists find in a text.

    Raises:
        InvalidRequest: a list cannot be compiled, a rule cannot be run on this text, or it all takes too long.
        TaskFailed: the process died.
    """
    data = await asyncio.to_thread(
        lambda: msgspec.msgpack.encode(_Sent(text, list(lists), encode_contents(list(lists.values()))))
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # It needs no credentials.
        env={name: value for name, value in os.environ.items() if not name.startswith("DETECTSCHED_")},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            answer, _ = await process.communicate(data)
    except TimeoutError:
        raise InvalidRequest(f"this text and these lists take longer than {seconds:g} s: try less of them") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode in {_REFUSED, _FAILED}:
        raise InvalidRequest(answer.decode())
    if process.returncode:
        raise TaskFailed("lists_not_tried", f"trying the word lists ended with status {process.returncode}")
    return msgspec.msgpack.decode(answer, type=Detection)


def main() -> int:
    """Do what standard input asks for; return the exit status."""
    # Whatever else is written to standard output is no part of the answer.
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sent = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Sent)
    lists = dict(zip(sent.versions, decode_contents(sent.contents), strict=True))
    status = 0
    try:
        document = msgspec.msgpack.encode(judge_of(lists).match(sent.text))
    except InvalidRequest as error:
        status, document = _REFUSED, error.detail.encode(errors="backslashreplace")
    except TaskFailed as error:
        status, document = _FAILED, error.detail.encode(errors="backslashreplace")
    with answer:
        answer.write(document)
    return status


if __name__ == "__main__":
    sys.exit(main())
