"""What the runner and an engine's process say to each other, and how it is framed.

A frame is four bytes of length (big endian) and a message in MessagePack. The runner says `Setup` once, is answered
`Ready` or `Unfit`, then says `Read` and is answered `Done`, `Rejected` or `Broken`, one image at a time, or `ReadMany`,
answered `DoneMany` or `Broken`.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any, BinaryIO, Final

import msgspec

from detectsched.detection import Line

_LENGTH: Final = struct.Struct(">I")
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""Longest answer that is taken: a page of text is some kilobytes, so a longer one is a process gone mad."""


class Setup(msgspec.Struct, frozen=True, tag=True):
    """First message: which engine to load; ``settings`` is an `OcrSettings` as plain data."""

    settings: dict[str, Any]
    slots: int
    max_pixels: int


class Read(msgspec.Struct, frozen=True, tag=True):
    """Read this image file; ``serial`` comes back with the answer, so that no answer is taken for another's.

    ``thrifty`` asks for less memory from the beginning (`engine.Engine.read`).
    """

    serial: int
    data: bytes
    thrifty: bool = False


class ReadMany(msgspec.Struct, frozen=True, tag=True):
    """Read these image files together."""

    serial: int
    images: tuple[bytes, ...]


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The engine is loaded and has read its own test image."""

    engine: str
    version: str


class Unfit(msgspec.Struct, frozen=True, tag=True):
    """The engine cannot be used as configured; ``detail`` says what to change."""

    detail: str


class Done(msgspec.Struct, frozen=True, tag=True):
    """What was read; width and height in pixels, ``seconds`` for decoding and reading."""

    serial: int
    lines: tuple[Line, ...]
    width: int
    height: int
    seconds: float


class Rejected(msgspec.Struct, frozen=True, tag=True):
    """The image can never be read."""

    serial: int
    reason: str
    detail: str


class Broken(msgspec.Struct, frozen=True, tag=True):
    """The engine failed on this image and the process ends; another may succeed."""

    serial: int
    reason: str
    detail: str


class DoneMany(msgspec.Struct, frozen=True, tag=True):
    """What became of each image of a batch, in its order."""

    serial: int
    answers: tuple[Done | Rejected, ...]


Request = Setup | Read | ReadMany
Answer = Ready | Unfit | Done | Rejected | Broken | DoneMany

_encode = msgspec.msgpack.Encoder().encode
_request_decoder: Final = msgspec.msgpack.Decoder(Request)
_answer_decoder: Final = msgspec.msgpack.Decoder(Answer)


class ProtocolError(Exception):
    """The other side sent what is not a message."""


def frame(message: Request | Answer) -> bytes:
    """Return a message as it goes over the pipe."""
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


async def receive_answer(reader: asyncio.StreamReader) -> Answer:
    """Wait for the engine process's next message.

    Raises:
        EOFError: the process closed its end.
        ProtocolError: too long, or not a message.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > MAX_ANSWER_BYTES:
        raise ProtocolError(f"an answer of {length} bytes")
    body = await reader.readexactly(length)
    try:
        answer: Answer = _answer_decoder.decode(body)
    except msgspec.DecodeError as error:
        raise ProtocolError(str(error)) from error
    return answer


def receive_request(stream: BinaryIO) -> Request | None:
    """Block for the runner's next message; None when the runner is gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    if len(body) < length:
        return None
    request: Request = _request_decoder.decode(body)
    return request
