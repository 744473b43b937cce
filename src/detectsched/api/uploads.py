"""Reads a submission with a file: a form, or JSON with the file in base64, which may be encrypted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import Request

from detectsched.api.bodies import media_type_of, parse_json
from detectsched.api.context import ApiContext
from detectsched.api.encrypted import read_json_body
from detectsched.api.forms import checked_form, read_form
from detectsched.api.intake import Submission
from detectsched.errors import UnsupportedMedia

FormModel = TypeVar("FormModel", bound=BaseModel)
JsonModel = TypeVar("JsonModel", bound=BaseModel)


async def read_upload(
    request: Request,
    context: ApiContext,
    tenant: str,
    key: str | None,
    *,
    field: str,
    form_model: type[FormModel],
    json_model: type[JsonModel],
    from_form: Callable[[str, FormModel, bytes, str | None, str | None], Submission],
    from_json: Callable[[str, JsonModel, str | None], Submission],
) -> Submission:
    """Return a submission whose file is in the field or part ``field``.

    ``from_form`` is given tenant, fields, file, the file's name and the Idempotency-Key; ``from_json`` tenant, document
    and key. Both run in a thread: megabytes are parsed, decoded and hashed.

    Raises:
        UnsupportedMedia: the body is neither.
        RequestRefused: it is not of that form, or what the callables raise.
    """
    match media_type_of(request):
        case "multipart/form-data":
            form = await read_form(request, file_field=field)

            def formed() -> Submission:
                checked = checked_form(form, form_model, file_field=field)
                return from_form(tenant, checked, getattr(checked, field), form.file_name, key)

            return await asyncio.to_thread(formed)
        case "application/json" | "application/jose":
            body = await read_json_body(request, context.opener, context.settings, tenant, key)
            return await asyncio.to_thread(
                lambda: from_json(tenant, parse_json(body.data, json_model), body.idempotency_key)
            )
        case _:
            raise UnsupportedMedia(
                f"send the {field} as multipart/form-data, or in base64 as application/json, which may be encrypted as "
                "application/jose"
            )
