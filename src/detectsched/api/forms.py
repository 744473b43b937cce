"""Reads a multipart form into memory: images are small enough, and a full disk under /tmp must refuse nobody."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from detectsched.api.problems import field_of, refusal_of
from detectsched.errors import InvalidRequest, MalformedRequest

Model = TypeVar("Model", bound=BaseModel)

_MOST_FIELDS: Final = 110
"""Room for a hundred word lists and the other fields."""
_LONGEST_FIELD: Final = 16_384


class _Parser(MultiPartParser):
    # The body's own limit bounds it; a file that rolled over to the disk would also block the loop.
    spool_max_size = 2**31

    is_whole = False

    def on_end(self) -> None:
        """Note that the last boundary was there."""
        self.is_whole = True

    def close(self) -> None:
        """Let go of every file, those of parts that never ended as well."""
        for file in self._files_to_close_on_error:
            file.close()


@dataclass(slots=True)
class Form:
    """What a form holds; a field that came several times has several texts."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    file: bytes | None = None
    file_name: str | None = None


async def read_form(request: Request, *, file_field: str) -> Form:
    """Return a form with one file.

    Raises:
        MalformedRequest: not a form, not a whole one, or one with too many parts.
        InvalidRequest: the file is somewhere else, or is not a file.
    """
    form = Form()
    parser = _Parser(
        request.headers, request.stream(), max_files=1, max_fields=_MOST_FIELDS, max_part_size=_LONGEST_FIELD
    )
    try:
        data = await parser.parse()
        if not parser.is_whole:
            raise MalformedRequest("the form ends before its last boundary: send it whole")
        for name, value in data.multi_items():
            await _take(form, name, value, file_field)
    except MultiPartException as error:
        raise MalformedRequest(f"the body is not a form that can be read: {error.message}") from None
    finally:
        parser.close()
    return form


async def _take(form: Form, name: str, value: UploadFile | str, file_field: str) -> None:
    if isinstance(value, UploadFile):
        if name != file_field:
            raise InvalidRequest(f"the file belongs into the part {file_field!r}", field=field_of([name]))
        form.file, form.file_name = await value.read(), value.filename
    elif name == file_field:
        raise InvalidRequest(f"{file_field} is not a file: give its part a file name", field=file_field)
    else:
        form.fields.setdefault(name, []).append(value)


def checked_form(form: Form, model: type[Model], *, file_field: str) -> Model:
    """Return a form as a model.

    Raises:
        InvalidRequest: it is not of that form.
    """
    # Browsers send the fields that were left empty.
    fields = {name: [text for text in texts if text] for name, texts in form.fields.items()}
    document: dict[str, object] = {name: _single(name, texts) for name, texts in fields.items() if texts}
    if "word_lists" in document:
        # Generated clients repeat the field, people at a command line write commas.
        document["word_lists"] = [item.strip() for text in fields["word_lists"] for item in text.split(",")]
    if form.file is not None:
        document[file_field] = form.file
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise refusal_of(error, what="the form") from None


def _single(name: str, texts: list[str]) -> str:
    if len(texts) > 1 and name != "word_lists":
        shown = field_of([name])
        raise InvalidRequest(f"{shown} came {len(texts)} times: give it once", field=shown)
    return texts[0]
