"""A small client of the HTTP API, as a device's program would have one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import httpx

from detectsched.errors import (
    Conflict,
    DetectschedError,
    Forbidden,
    InvalidRequest,
    MalformedRequest,
    NotFound,
    StoreUnavailable,
    TooLarge,
    Unauthenticated,
    UnsupportedMedia,
)

_WAIT_SECONDS: Final = 30
_TRIES: Final = 20

_ERRORS: Final[dict[int, type[DetectschedError]]] = {
    kind.status: kind
    for kind in (
        MalformedRequest,
        Unauthenticated,
        Forbidden,
        NotFound,
        Conflict,
        TooLarge,
        UnsupportedMedia,
        InvalidRequest,
    )
} | {429: StoreUnavailable, 503: StoreUnavailable}
"""What an answer is raised as; one that asks to come back later is an outage to whoever does not."""


class Client:
    """Sends with an API key; waits and sends again when it is told to (429, 503), ``tries`` times at most."""

    def __init__(self, url: str, key: str, *, tries: int = _TRIES) -> None:
        self._url = url
        self._tries = tries
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=_WAIT_SECONDS + 30,
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=64),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        """Open it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def publish_words(self, list_id: str, name: str, words: Sequence[Mapping[str, object]]) -> None:
        """Publish a word list that judges everything which names none."""
        document = {"name": name, "is_default": True, "words": list(words)}
        await self._send("PUT", f"/api/word-lists/{list_id}", json=document)

    async def submit_text(self, mac: str, text: str, *, key: str) -> str:
        """Submit a text; return the task's id."""
        answer = await self._send(
            "POST", "/api/ocr/text", json={"mac": mac, "text": text}, headers={"Idempotency-Key": key}
        )
        return str(answer["task_id"])

    async def submit_image(self, mac: str, name: str, data: bytes, media_type: str, *, key: str) -> str:
        """Submit an image; return the task's id."""
        answer = await self._send(
            "POST",
            "/api/ocr/image",
            data={"mac": mac},
            files={"image": (name, data, media_type)},
            headers={"Idempotency-Key": key},
        )
        return str(answer["task_id"])

    async def submit_batch(self, lines: Sequence[Mapping[str, object]]) -> list[str]:
        """Submit many at once; return the tasks' ids, in order.

        Raises:
            DetectschedError: a line was refused.
        """
        answer = await self._send(
            "POST",
            "/api/tasks/batch",
            content="\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode(),
            headers={"Content-Type": "application/x-ndjson"},
        )
        for outcome in answer["results"]:
            if outcome["problem"] is not None:
                raise DetectschedError(f"line {outcome['line']} was refused: {outcome['problem']['detail']}")
        return [str(outcome["task"]["task_id"]) for outcome in answer["results"]]

    async def result(self, task_id: str) -> dict[str, Any]:
        """Wait until a task has ended; return it."""
        while True:
            task = await self._send("GET", f"/api/tasks/{task_id}", params={"wait": _WAIT_SECONDS})
            if task["state"] not in {"queued", "running"}:
                return task

    async def call(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        """Send any request (arguments as httpx takes them) and return the document that answers it.

        Raises:
            StoreUnavailable: nobody answers, or the answer is to come back later.
            DetectschedError: the error that the answer tells of.
        """
        return await self._send(method, path, **request)

    async def _send(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        for tries_left in reversed(range(self._tries)):
            try:
                answer = await self._http.request(method, path, **request)
            except httpx.TransportError as error:
                words = str(error) or type(error).__name__
                raise StoreUnavailable(f"no API answers at {self._url}: {words}; is it running there?") from error
            if answer.status_code not in {429, 503} or not tries_left:
                break
            await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))
        if answer.is_error:
            raise _error_of(answer)
        try:
            document: dict[str, Any] = answer.json()
        except ValueError as error:
            raise DetectschedError(f"what answers at {self._url} is not this API: {answer.text[:200]!r}") from error
        return document


def _error_of(answer: httpx.Response) -> DetectschedError:
    kind = _ERRORS.get(answer.status_code, DetectschedError)
    try:
        return kind(str(answer.json()["detail"]))
    except (ValueError, TypeError, KeyError):
        request = answer.request
        return kind(f"{request.method} {request.url.path} was answered {answer.status_code}: {answer.text[:500]}")
