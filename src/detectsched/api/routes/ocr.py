"""Submitting one image or one text."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from detectsched.api.auth import Submitter
from detectsched.api.bodies import (
    IdempotencyHeader,
    ImageForm,
    SubmitImage,
    SubmitText,
    parse_json,
)
from detectsched.api.context import Context
from detectsched.api.encrypted import read_json_body
from detectsched.api.openapi import accepted, body, problems
from detectsched.api.schemas import SubmittedTask
from detectsched.api.uploads import read_upload
from detectsched.api.views import answer

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
    submission = await read_upload(
        request,
        context,
        caller.tenant,
        idempotency_key,
        field="image",
        form_model=ImageForm,
        json_model=SubmitImage,
        from_form=context.intake.image,
        from_json=context.intake.json_image,
    )
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
