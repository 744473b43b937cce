"""Submitting one image or one text."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

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
from detectsched.api.forms import Form, read_form
from detectsched.api.intake import Intake, Submission
from detectsched.api.openapi import accepted, body, problems
from detectsched.api.problems import field_of, refusal_of
from detectsched.api.schemas import SubmittedTask
from detectsched.api.submission import Receipt
from detectsched.api.views import submitted
from detectsched.errors import InvalidRequest, UnsupportedMedia
from detectsched.task import TERMINAL_STATES

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
    return _answer(await context.accept_path.submit(submission), response)


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
    return _answer(await context.accept_path.submit(submission), response)


def _answer(receipt: Receipt, response: Response) -> SubmittedTask:
    response.headers["Location"] = f"/api/tasks/{receipt.task_id}"
    if receipt.replayed:
        response.headers["Idempotency-Replayed"] = "true"
        if receipt.state in TERMINAL_STATES:
            response.status_code = 200
    return submitted(receipt)


async def _image_of(request: Request, context: ApiContext, tenant: str, key: str | None) -> Submission:
    intake = context.intake
    # Megabytes are parsed, decoded, hashed: off the loop.
    match media_type_of(request):
        case "multipart/form-data":
            form = await read_form(request, file_field="image")
            return await asyncio.to_thread(_from_form, form, intake, tenant, key)
        case "application/json" | "application/jose":
            body = await read_json_body(request, context.opener, context.settings, tenant, key)
            return await asyncio.to_thread(
                lambda: intake.base64_image(tenant, parse_json(body.data, SubmitImage), body.idempotency_key)
            )
        case _:
            raise UnsupportedMedia(
                "send the image as multipart/form-data, or in base64 as application/json, which may be encrypted as "
                "application/jose"
            )


def _from_form(form: Form, intake: Intake, tenant: str, key: str | None) -> Submission:
    # Browsers send the fields that were left empty.
    fields = {name: [text for text in texts if text] for name, texts in form.fields.items()}
    document: dict[str, object] = {name: _single(name, texts) for name, texts in fields.items() if texts}
    if "word_lists" in document:
        # Generated clients repeat the field, people at a command line write commas.
        document["word_lists"] = [item.strip() for text in fields["word_lists"] for item in text.split(",")]
    if form.file is not None:
        document["image"] = form.file
    try:
        checked = ImageForm.model_validate(document)
    except ValidationError as error:
        raise refusal_of(error, what="the form") from None
    return intake.image(tenant, checked, checked.image, form.file_name, key)


def _single(name: str, texts: list[str]) -> str:
    if len(texts) > 1 and name != "word_lists":
        shown = field_of([name])
        raise InvalidRequest(f"{shown} came {len(texts)} times: give it once", field=shown)
    return texts[0]
