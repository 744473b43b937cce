"""Submitting one image or one text."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from detectsched.api.auth import Submitter
from detectsched.api.bodies import (
    IdempotencyHeader,
    ImageForm,
    SubmitImage,
    SubmitText,
    media_type_of,
    parse_json,
)
from detectsched.api.context import ApiContext, Context
from detectsched.api.encrypted import read_json_body
from detectsched.api.forms import checked_form, read_form
from detectsched.api.intake import Submission
from detectsched.api.openapi import accepted, body, problems
from detectsched.api.schemas import SubmittedTask
from detectsched.api.views import answer
from detectsched.errors import UnsupportedMedia

router = APIRouter(prefix="/api/ocr", tags=["submissions"])

_ANSWERS = accepted() | problems(400, 409, 413, 415, 429)


@router.post(
    "/image",
    status_code=202,
    responses=_ANSWERS,
    openapi_extra=body(form="ImageForm", json="SubmitImage", encrypted=True),
)
async def submit_image(
    request: Request,
    response: Response,
    context: Context,
    caller: Submitter,
    idempotency_key: IdempotencyHeader = None,
) -> SubmittedTask:
    """Submit an image: its text is read by OCR and matched against word lists."""
    submission = await _image_of(request, context, caller.tenant, idempotency_key)
    return answer(await context.accept_path.submit(submission), response)


@router.post("/text", status_code=202, responses=_ANSWERS, openapi_extra=body(json="SubmitText", encrypted=True))
async def submit_text(
    request: Request,
    response: Response,
    context: Context,
    caller: Submitter,
    idempotency_key: IdempotencyHeader = None,
) -> SubmittedTask:
    """Submit a text: it is matched against word lists."""
    body = await read_json_body(request, context.opener, context.settings, caller.tenant, idempotency_key)
    submission = context.intake.text(caller.tenant, parse_json(body.data, SubmitText), body.idempotency_key)
    return answer(await context.accept_path.submit(submission), response)


async def _image_of(request: Request, context: ApiContext, tenant: str, key: str | None) -> Submission:
    intake = context.intake
    # Megabytes are parsed, decoded, hashed: off the loop.
    match media_type_of(request):
        case "multipart/form-data":
            form = await read_form(request, file_field="image")

            def from_form() -> Submission:
                checked = checked_form(form, ImageForm, file_field="image")
                return intake.image(tenant, checked, checked.image, form.file_name, key)

            return await asyncio.to_thread(from_form)
        case "application/json" | "application/jose":
            body = await read_json_body(request, context.opener, context.settings, tenant, key)
            return await asyncio.to_thread(
                lambda: intake.json_image(tenant, parse_json(body.data, SubmitImage), body.idempotency_key)
            )
        case _:
            raise UnsupportedMedia(
                "send the image as multipart/form-data, or in base64 as application/json, which may be encrypted as "
                "application/jose"
            )
