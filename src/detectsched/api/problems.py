"""Every error as ``application/problem+json`` (RFC 9457), of one typed shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response
from starlette.types import Scope

from detectsched.errors import (
    DetectschedError,
    GenerationLost,
    InvalidRequest,
    MalformedRequest,
    Overloaded,
    RequestRefused,
    SealBroken,
    StoreUnavailable,
)

MEDIA_TYPE: Final = "application/problem+json"

_LONGEST_FIELD: Final = 200
_REBUILD_SECONDS: Final = 2
"""Retry-After while the queues are rebuilt, which takes seconds."""


class Code(StrEnum):
    """What went wrong, for programs; the words are stable."""

    INVALID_REQUEST = "invalid_request"
    MALFORMED = "malformed"
    DECRYPTION_FAILED = "decryption_failed"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    CONFLICT = "conflict"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    TOO_LARGE = "too_large"
    UNSUPPORTED_MEDIA = "unsupported_media"
    DEVICE_OVERLOADED = "device_overloaded"
    SYSTEM_OVERLOADED = "system_overloaded"
    UNAVAILABLE = "unavailable"
    REBUILDING = "rebuilding"
    SEALED = "sealed"
    INTERNAL = "internal"


_CODES: Final = frozenset(code.value for code in Code)


class FieldError(BaseModel):
    """One field that is wrong."""

    field: str = Field(description="Its name; parts of nested fields are joined by dots, as in `words.17.text`.")
    detail: str = Field(description="What is wrong with it, for people.")


class Problem(BaseModel):
    """An error, as of RFC 9457."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    type: str = Field(description="`urn:detectsched:problem:` and the code.")
    title: str
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong and what to change, for people.")
    instance: str = Field(description="The path that was asked for.")
    code: Code
    errors: list[FieldError] = Field([], description="The fields that are wrong, if it is about fields.")
    retry_after: int | None = Field(None, description="Seconds after which to try again; also in `Retry-After`.")


class InvalidFields(InvalidRequest):
    """Several fields are wrong at once; the caller is told all of them."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        first = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{first.field}: {first.detail}{more}" if first.field else first.detail, field=first.field)
        self.errors = list(errors)


class MethodNotAllowed(RequestRefused):
    """The path exists, the method does not."""

    status = 405
    code = "method_not_allowed"
    title = "Method not allowed"


Location = tuple[int | str, ...]
"""Where in a document something stands."""


def refusal_of(
    error: ValidationError, *, what: str = "the body", located: Callable[[Location], Location] = tuple
) -> InvalidRequest:
    """Return what a caller is told about a document that does not fit its model.

    ``located`` says where in the document something stands that the model has elsewhere.
    """
    found = error.errors(include_url=False, include_input=False, include_context=False)
    for item in found:
        if item["type"] == "json_invalid":
            reason = item["msg"].removeprefix("Invalid JSON: ")
            if "hex escape" in reason or "surrogate" in reason:
                reason += "; the escapes \\ud800 to \\udfff stand for a character only as a pair"
            return MalformedRequest(f"{what} is not valid JSON: {reason}")
    return InvalidFields([FieldError(field=field_of(located(item["loc"])), detail=_words(item)) for item in found])


def field_of(path: Sequence[int | str]) -> str:
    """Return a field's name; parts that a caller made up are shown so that they break no line of a log."""
    parts = [part if part.isprintable() else repr(part) for part in map(str, path)]
    return ".".join(parts)[:_LONGEST_FIELD]


def _words(item: Mapping[str, Any]) -> str:
    if item["type"] == "extra_forbidden":
        return "there is no such field: check its name, or leave it out"
    return str(item["msg"]).removeprefix("Value error, ")


def problem_of(error: Exception, *, instance: str, fallback_seconds: int) -> Problem:
    """Return the problem that a caller is shown for an error.

    Of a bug or of a store nothing but its kind is told: their words (SQL, addresses, paths) belong into the log.
    ``fallback_seconds`` is the Retry-After of an outage of which nobody knows how long it lasts.
    """
    known = error if isinstance(error, DetectschedError) and type(error).code in _CODES else DetectschedError("")
    kind = type(known)
    return Problem(
        type=f"urn:detectsched:problem:{kind.code}",
        title=kind.title,
        status=kind.status,
        detail=_detail(known),
        instance=instance,
        code=Code(kind.code),
        errors=_field_errors(known),
        retry_after=_retry_after(known, fallback_seconds),
    )


def _detail(error: DetectschedError) -> str:
    match error:
        case RequestRefused():
            return error.detail
        case GenerationLost():
            return "the queues are being rebuilt from the ledger; send the same request again in a moment"
        case StoreUnavailable():
            return "a store of this service cannot be reached now; send the same request again later"
        case SealBroken():
            return "this is encrypted at rest, and the server cannot open it: its operator must look"
        case _:
            return "something went wrong inside; the request id leads to the log"


def _field_errors(error: DetectschedError) -> list[FieldError]:
    if isinstance(error, InvalidFields):
        return error.errors
    if isinstance(error, RequestRefused) and error.field is not None:
        return [FieldError(field=error.field, detail=error.detail)]
    return []


def _retry_after(error: DetectschedError, fallback_seconds: int) -> int | None:
    match error:
        case Overloaded():
            return error.retry_after
        case GenerationLost():
            return error.retry_after or _REBUILD_SECONDS
        case StoreUnavailable():
            return error.retry_after or fallback_seconds
        case _:
            return None


class ProblemResponse(Response):
    """A problem as an answer."""

    media_type = MEDIA_TYPE

    def __init__(self, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        headers = dict(headers or {})
        if problem.retry_after is not None:
            headers["Retry-After"] = str(problem.retry_after)
        if problem.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = 'Bearer realm="detectsched"'
        super().__init__(problem.model_dump_json(), problem.status, headers)


def instance_of(scope: Scope) -> str:
    """Return the path of a request as it was sent."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.decode("ascii", "replace")[:500]
