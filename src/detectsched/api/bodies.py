"""What callers send: strict, without unknown fields. What a field means is said here and shown in the OpenAPI page."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import Header
from pydantic import BaseModel, ConfigDict, Field, RootModel, StringConstraints, ValidationError
from starlette.requests import Request

from detectsched.api.fields import NAMED, WHOLE, Mac, ObjectName, Text, Url, exactly_one
from detectsched.api.moments import Moment
from detectsched.api.problems import refusal_of
from detectsched.errors import UnsupportedMedia
from detectsched.task import ENGINE_OCR

Model = TypeVar("Model", bound=BaseModel)

_KEY_PATTERN: Final = r"^[!-~]+$"
_BASE64: Final = {
    "contentEncoding": "base64",
    # Only told, not run: matching megabytes would take longer than decoding them, which is strict anyway.
    "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}

ListId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
_LANE: Final = StringConstraints(pattern=r"^[a-z_][a-z0-9_]{0,31}$")
Lane = Annotated[str, _LANE, Field(json_schema_extra={NAMED: "LaneName"})]
EngineLane = Annotated[str, _LANE, Field(json_schema_extra={NAMED: "EngineLaneName"})]
"""A lane whose runners have engines: any but that of texts."""
_KEY_WORDS: Final = "Names this request: sent again under the same key it yields the same task, however often."
IdempotencyKey = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_KEY_PATTERN)]
IdempotencyHeader = Annotated[IdempotencyKey | None, Header(alias="Idempotency-Key", description=_KEY_WORDS)]


class RequestModel(BaseModel):
    """A document from outside."""

    model_config = ConfigDict(strict=True, extra="forbid", use_attribute_docstrings=True)


class Scheduling(RequestModel):
    """What all submissions have."""

    word_lists: Annotated[list[ListId], Field(min_length=1, max_length=100)] | None = None
    """Ids of the word lists to judge by; without it the object's own, or else the tenant's default lists do."""
    lane: Lane | None = None
    """The lane to run in; without it `text` for texts and `ocr` for all else."""
    ttl_seconds: Annotated[int, Field(ge=1, le=604_800), WHOLE] | None = None
    """The task expires if it is not started within this time, counted from `not_before`."""
    not_before: Moment | None = None
    """The task is not started before this time, at most 30 days ahead; one that has passed means now."""
    callback_url: Url | None = None
    """Is told of the task's end by a signed POST."""


class Submit(Scheduling):
    """A submission of a device or an object; exactly one of `mac` and `object` says whose task it is."""

    model_config = ConfigDict(json_schema_extra=exactly_one(("mac", "object")))

    mac: Mac | None = None
    """The device: a MAC address in any usual spelling."""
    object: ObjectName | None = None
    """The object, by name; its tasks run one at a time, in the order in which they were accepted."""


class SubmitText(Submit):
    """A text to be matched against word lists."""

    text: Text
    """The text."""


class SubmitImage(Submit):
    """An image to be read, inside JSON; exactly one of `image` and `image_url` says which."""

    model_config = ConfigDict(json_schema_extra=exactly_one(("mac", "object"), ("image", "image_url")))

    image: Annotated[str, StringConstraints(min_length=1), Field(json_schema_extra=_BASE64)] | None = None
    """The image file in base64 (standard alphabet, padded, no line breaks, no `data:` prefix)."""
    image_url: Url | None = None
    """Where the image is fetched from while the request waits, in place of `image`; only where the server allows it."""
    file_name: Annotated[str, StringConstraints(max_length=255)] | None = None
    """What the file is called, for people."""
    lane: EngineLane | None = None
    """The lane to run in; without it `ocr`."""


def without_null(schema: dict[str, Any]) -> None:
    """Take null out of a schema's fields: a form cannot say it, and generated clients would send the word None."""
    for field in schema["properties"].values():
        choices = field.pop("anyOf", [])
        field.update(next((choice for choice in choices if choice.get("type") != "null"), {}))
        field.pop("default", None)


class ImageForm(Submit):
    """An image to be read, as a form; every field but the file is text."""

    model_config = ConfigDict(strict=False, json_schema_extra=without_null)

    image: bytes
    """The image file, as a part with a file name."""
    lane: EngineLane | None = None
    """The lane to run in; without it `ocr`."""


class Handle(Scheduling):
    """A task of an object; its tasks run one at a time, in the order in which they were accepted."""

    object: ObjectName
    """The object, by name: width, case and runs of spaces make no difference."""


class HandleText(Handle):
    """A text of an object, to be matched against word lists."""

    text: Text
    """The text."""


EngineName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$"), Field(json_schema_extra={NAMED: "EngineName"})
]


class _Calculate(Handle):
    lane: EngineLane | None = None
    """The lane to run in; without it `ocr`."""
    engine: EngineName = ENGINE_OCR
    """The engine that makes text of the payload: `ocr` (images), `pdf`, or one that was installed beside them."""


class Calculate(_Calculate):
    """A payload of an object, inside JSON: an engine makes text of it, which is matched against word lists."""

    payload: Annotated[str, StringConstraints(min_length=1), Field(json_schema_extra=_BASE64)]
    """The payload in base64 (standard alphabet, padded, no line breaks, no `data:` prefix)."""
    file_name: Annotated[str, StringConstraints(max_length=255)] | None = None
    """What the file is called, for people."""


class CalculateForm(_Calculate):
    """A payload of an object, as a form; every field but the file is text."""

    model_config = ConfigDict(strict=False, json_schema_extra=without_null)

    payload: bytes
    """The payload, as a part with a file name."""


class TextLine(SubmitText):
    """A line of a batch: a text."""

    kind: Literal["text"]
    """What the line is."""
    idempotency_key: Annotated[IdempotencyKey | None, Field(description=_KEY_WORDS)] = None


class ImageLine(SubmitImage):
    """A line of a batch: an image."""

    kind: Literal["image"]
    """What the line is."""
    idempotency_key: Annotated[IdempotencyKey | None, Field(description=_KEY_WORDS)] = None


class BatchLine(RootModel[Annotated[TextLine | ImageLine, Field(discriminator="kind")]]):
    """One line of a batch."""


async def read_optional_json(request: Request, model: type[Model]) -> Model:
    """Return a JSON body as a model; no body at all is an empty document.

    Raises:
        As `read_json`.
    """
    return await read_json(request, model) if await request.body() else model()


async def read_json(request: Request, model: type[Model]) -> Model:
    """Return a JSON body as a model.

    Raises:
        UnsupportedMedia: the body is something else.
        MalformedRequest: not JSON.
        InvalidRequest: JSON, but not of that form.
    """
    require_json(request)
    return parse_json(await request.body(), model)


def require_json(request: Request) -> None:
    """Do nothing.

    Raises:
        UnsupportedMedia: the body is something other than JSON.
    """
    if media_type_of(request) != "application/json":
        raise UnsupportedMedia("send the body as application/json, and say so in Content-Type")


def parse_json(data: bytes, model: type[Model], *, what: str = "the body") -> Model:
    """Return JSON as a model.

    Raises:
        MalformedRequest: not JSON.
        InvalidRequest: JSON, but not of that form.
    """
    try:
        # Straight from the bytes: json.loads would let NaN and halves of surrogate pairs pass.
        return model.model_validate_json(data)
    except ValidationError as error:
        raise refusal_of(error, what=what) from None


def media_type_of(request: Request) -> str:
    """Return the media type of a body without its parameters, in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
