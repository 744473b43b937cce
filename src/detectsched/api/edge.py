"""The outermost layer of every request: its id, its figures, and an answer to whatever was raised below."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import traceback
from typing import Final

import structlog
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from detectsched.api.metrics import Metrics
from detectsched.api.problems import (
    FieldError,
    InvalidFields,
    MethodNotAllowed,
    Problem,
    ProblemResponse,
    field_of,
    instance_of,
)
from detectsched.api.problems import problem_of as describe
from detectsched.clock import monotonic
from detectsched.errors import (
    DetectschedError,
    MalformedRequest,
    NotFound,
    RequestRefused,
    SealBroken,
    StoreUnavailable,
    TooLarge,
)
from detectsched.telemetry import AWAY, get_logger

log = get_logger(__name__)

REQUEST_ID: Final = "X-Request-Id"
CONFIDENTIAL: Final = "detectsched.confidential"
"""Set in the scope of a request whose content came encrypted: no error that it meets is quoted in a log."""

_GOOD_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
"""What is taken over from a caller goes into log lines: nothing that could break one."""

HANDLED: Final[tuple[type[Exception], ...]] = (DetectschedError, HTTPException, RequestValidationError)
"""What routes raise on purpose."""


class Edge:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, metrics: Metrics, stopping: asyncio.Event, answer: Answer) -> None:
        self._app = app
        self._metrics = metrics
        self._stopping = stopping
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, and see that it is answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        began = monotonic()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, send_with_id)
            except asyncio.CancelledError:
                # Only a stop whose grace is over cancels requests; this one's task ends here either way.
                if status or not self._stopping.is_set():
                    raise
                error = StoreUnavailable("the server is stopping")
                await self._answer(scope, error)(scope, receive, send_with_id)
            except ClientDisconnect:
                log.debug("the caller left before its body was whole", path=scope["path"])
            except Exception as error:
                if status:
                    raise
                await self._answer(scope, error)(scope, receive, send_with_id)
            finally:
                # The template of the route, not the path: one series per route, not one per task.
                route = getattr(scope.get("route"), "path_format", "unmatched")
                self._metrics.count_request(route, scope["method"], status, monotonic() - began)


def _request_id(scope: Scope) -> str:
    given = Headers(scope=scope).get(REQUEST_ID, "")
    return given if _GOOD_ID.fullmatch(given) else secrets.token_hex(8)


class Answer:
    """Makes the answer to an error, and writes to the log what callers are not told."""

    def __init__(self, metrics: Metrics, *, fallback_seconds: int) -> None:
        self._metrics = metrics
        self._fallback_seconds = fallback_seconds

    def __call__(self, scope: Scope, error: Exception) -> ProblemResponse:
        """Return the answer to a request."""
        confidential = CONFIDENTIAL in scope
        problem = self.problem(_translated(error), instance=instance_of(scope), confidential=confidential)
        return ProblemResponse(problem, dict(getattr(error, "headers", None) or {}))

    def problem(self, error: Exception, *, instance: str, confidential: bool = False) -> Problem:
        """Return what a caller is told of an error, for a request or for a line of a batch."""
        if confidential and not isinstance(error, StoreUnavailable):
            log.log(_level_of(error), "confidential request failed", path=instance, **_without_words(error))
        else:
            self._note(error, instance)
        problem = describe(error, instance=instance, fallback_seconds=self._fallback_seconds)
        self._metrics.count_refusal(problem.code)
        return problem

    def _note(self, error: Exception, instance: str) -> None:
        match error:
            case RequestRefused():
                log.debug("refused", path=instance, code=type(error).code, error=error.detail)
            case StoreUnavailable():
                if AWAY.lets():
                    log.warning("a store is unavailable", path=instance, error=error.detail)
            case SealBroken():
                log.error("what is encrypted at rest cannot be opened", path=instance, error=error.detail)
            case _:
                log.error("request failed", path=instance, exc_info=error)


def _level_of(error: Exception) -> int:
    return logging.DEBUG if isinstance(error, RequestRefused) else logging.ERROR


def _without_words(error: Exception) -> dict[str, object]:
    """Return what of an error can quote nothing: its kind, and where it was raised."""
    if isinstance(error, RequestRefused):
        return {"code": type(error).code}
    where = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    return {"error": type(error).__name__, "where": where}


def _translated(error: Exception) -> Exception:
    """Return what the framework raises as one of our own errors."""
    match error:
        case RequestValidationError():
            return InvalidFields(
                [FieldError(field=field_of(item["loc"][1:]), detail=_words(item)) for item in error.errors()]
            )
        case HTTPException(status_code=404):
            return NotFound("there is nothing at this path")
        case HTTPException(status_code=405):
            return MethodNotAllowed("this path does not take that method; see the header Allow")
        case HTTPException(status_code=413):
            return TooLarge(error.detail)
        case HTTPException(status_code=status) if 400 <= status < 500:
            return MalformedRequest(error.detail)
        case _:
            return error


def _words(item: dict[str, str]) -> str:
    return "there is no such parameter: check its name" if item["type"] == "extra_forbidden" else item["msg"]
