"""Compiling word lists in a process of its own: ``python -m detectsched.matching.apart``.

Folding and spelling a hundred thousand words takes a second of Python. In a thread that would stall the event loop;
what comes out of the process is taken over in pieces of some milliseconds. The parts of the automaton come built from
it, or, where the library does not hand them on, as their keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
from collections.abc import Sequence
from itertools import chain, islice
from typing import Final

import msgspec

from detectsched.errors import InvalidRequest, TaskFailed
from detectsched.matching.automaton import Automaton, Part, build, parted
from detectsched.matching.patterns import Compiled, Group, compile_words
from detectsched.wordlist import ListContent, ListOptions, SearchLibrary, Word

_PIECE: Final = 5_000
"""Words that are encoded at once, between two chances for the event loop."""
_REFUSED: Final = 2
"""Exit status: the lists are wrong; standard output says why."""


async def compile_apart(
    contents: Sequence[ListContent], library: SearchLibrary = SearchLibrary.PYAHOCORASICK
) -> tuple[Group, ...]:
    """Return what `compile_lists` returns, without holding up the event loop.

    Raises:
        InvalidRequest: as `compile_lists`.
        TaskFailed: the process died.

    """
    data = await asyncio.to_thread(encode_contents, contents)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        library.value,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # It needs no credentials.
        env={name: value for name, value in os.environ.items() if not name.startswith("DETECTSCHED_")},
        # Ctrl-C does not reach it: whoever waits for it decides.
        start_new_session=True,
    )
    try:
        answer, _ = await process.communicate(data)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode == _REFUSED:
        raise InvalidRequest(answer.decode(), field="text")
    if process.returncode:
        raise TaskFailed("lists_not_compiled", f"compiling the word lists ended with status {process.returncode}")
    return tuple([await _taken_over(group, library) for group in msgspec.msgpack.decode(answer, type=list[_Answer])])


class _Answer(msgspec.Struct):
    """A group on its way back."""

    rest: bytes
    """A pickled `Compiled` without what is in pieces; our own process wrote it."""
    odd: list[bytes]
    """Pieces of its meanings' odd words, in MessagePack."""
    parts: list[bytes]
    """The parts of its automaton: pickled, or their keys in MessagePack."""


async def _taken_over(answer: _Answer, library: SearchLibrary) -> Group:
    """Return a group; between two pieces the event loop has the GIL."""
    compiled: Compiled = await asyncio.to_thread(pickle.loads, answer.rest)
    words = msgspec.msgpack.Decoder(dict[int, str])
    for piece in answer.odd:
        compiled.meanings.odd.update(await asyncio.to_thread(words.decode, piece))
    parts = [await asyncio.to_thread(_part, piece, library) for piece in answer.parts]
    return Group(compiled.folding, compiled.leniency, compiled.meanings, Automaton(parts))


class _Sent(msgspec.Struct):
    """A list on its way to the process; its words in pieces, each an array in MessagePack."""

    options: ListOptions
    pieces: list[bytes]


def encode_contents(contents: Sequence[ListContent]) -> bytes:
    """Return lists as a process is sent them; a thread that does it never holds the GIL for long."""
    encode = msgspec.msgpack.encode
    return encode(
        [
            _Sent(
                content.options,
                [encode(content.words[first : first + _PIECE]) for first in range(0, len(content.words), _PIECE)],
            )
            for content in contents
        ]
    )


def decode_contents(data: bytes) -> list[ListContent]:
    """Return what `encode_contents` was given."""
    words = msgspec.msgpack.Decoder(list[Word])
    return [
        ListContent(tuple(chain.from_iterable(map(words.decode, sent.pieces))), sent.options)
        for sent in msgspec.msgpack.decode(data, type=list[_Sent])
    ]


def _sent(keys: Sequence[str], library: SearchLibrary) -> bytes:
    """Return a part of an automaton as `_part` takes it over."""
    if library is SearchLibrary.PYAHOCORASICK:
        return pickle.dumps(build(keys, library), pickle.HIGHEST_PROTOCOL)
    return msgspec.msgpack.encode(keys)


def _part(sent: bytes, library: SearchLibrary) -> Part:
    if library is SearchLibrary.PYAHOCORASICK:
        part: Part = pickle.loads(sent)  # noqa: S301 - our own process wrote it
        return part
    return build(msgspec.msgpack.decode(sent, type=list[str]), library)


def _answer(compiled: Compiled, library: SearchLibrary) -> _Answer:
    encode = msgspec.msgpack.encode
    keys, odd = compiled.keys, iter(compiled.meanings.odd.items())
    compiled.meanings.odd = {}
    return _Answer(
        rest=pickle.dumps(compiled._replace(keys=[]), pickle.HIGHEST_PROTOCOL),
        odd=[encode(dict(piece)) for piece in iter(lambda: list(islice(odd, _PIECE)), [])],
        parts=[_sent(some, library) for some in parted(keys, library)],
    )


def main() -> int:
    """Compile the lists on standard input for the library that is named; return the exit status."""
    library = SearchLibrary(sys.argv[1])
    contents = decode_contents(sys.stdin.buffer.read())
    try:
        groups = compile_words(contents)
    except InvalidRequest as error:
        sys.stdout.buffer.write(error.detail.encode(errors="backslashreplace"))
        return _REFUSED
    sys.stdout.buffer.write(msgspec.msgpack.encode([_answer(group, library) for group in groups]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
