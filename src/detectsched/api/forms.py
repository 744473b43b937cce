"""Reads a multipart form into memory: images are small enough, and a full disk under /tmp must refuse nobody."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from detectsched.api.problems import field_of
from detectsched.errors import InvalidRequest, MalformedRequest

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
