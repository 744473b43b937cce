"""How many bytes of a body are read; counted as they come, whatever Content-Length says or whether there is one."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from detectsched.errors import TooLarge
from detectsched.jwe import MEDIA_TYPE
from detectsched.settings import ApiSettings

WORD_LIST_BYTES: Final = 33_554_432
"""Room for a list of 100,000 words of ordinary length."""
_ORDINARY_BYTES: Final = 65_536
_JOSE_BYTES: Final = 8192
"""Room for a JWE's header, key, nonce and tag."""
_ENVELOPE_BYTES: Final = 65_536
"""Room for the other fields around a payload."""


def body_limit(method: str, path: str, settings: ApiSettings) -> int:
    """Return the most bytes that a request's body may have; every payload within its own limit fits."""
    match method, path:
        case "POST", "/api/ocr/image" | "/calculate/handler":
            # base64 makes four bytes of three.
            return -(-settings.max_image_bytes // 3) * 4 + _ENVELOPE_BYTES
        case "POST", "/api/word-lists/test":
            return max(settings.max_image_bytes, settings.max_text_bytes * 6) + _ENVELOPE_BYTES
        case "POST", "/api/ocr/text" | "/text/handler":
            # JSON may write any byte of UTF-8 as an escape of six characters.
            return settings.max_text_bytes * 6 + _ENVELOPE_BYTES
        case "POST", "/api/tasks/batch" | "/api/detections" | "/api/decter":
            return settings.max_batch_bytes
        case "PUT" | "PATCH" | "POST", _ if path.startswith("/api/word-lists/") and _holds_a_list(method, path):
            return WORD_LIST_BYTES
        case _:
            return _ORDINARY_BYTES


def _holds_a_list(method: str, path: str) -> bool:
    return method != "POST" or path.endswith("/import")


def limit_of(scope: Scope, settings: ApiSettings, *, encrypted: bool | None = None) -> int:
    """Return the most bytes that a request's body may have; what is encrypted is base64url, and may be longer.

    ``encrypted`` None: as its Content-Type says.
    """
    limit = body_limit(scope["method"], scope["path"].removeprefix(scope.get("root_path", "")), settings)
    if encrypted is None:
        media_type = Headers(scope=scope).get("content-type", "").partition(";")[0]
        encrypted = media_type.strip().lower() == MEDIA_TYPE
    return -(-limit // 3) * 4 + _JOSE_BYTES if encrypted else limit


class BodyTooLarge(HTTPException):
    """Raised out of ``receive``; frameworks pass an HTTPException on, and wrap any other into a 400."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the body is larger than {limit} bytes, the most that this route takes")


class BodyLimit:
    """ASGI middleware: a body that is too large is refused before it is in memory, a declared one before it is read."""

    def __init__(self, app: ASGIApp, settings: ApiSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raise `TooLarge`, or have ``receive`` raise `BodyTooLarge`, past the limit."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = limit_of(scope, self._settings)
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and len(declared) < 20 and int(declared) > limit:
            raise TooLarge(BodyTooLarge(limit).detail)
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise BodyTooLarge(limit)
            return message

        await self._app(scope, counted, send)
