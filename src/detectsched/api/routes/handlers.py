"""The original's handlers: tasks of objects, worked off one at a time and in order."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from detectsched.api.auth import Submitter
from detectsched.api.bodies import (
    Calculate,
    CalculateForm,
    HandleText,
    IdempotencyHeader,
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

router = APIRouter(tags=["submissions"])

_ANSWERS = accepted() | problems(400, 409, 413, 415, 429)


@router.post(
    "/text/handler", status_code=202, responses=_ANSWERS, openapi_extra=body(json="HandleText", encrypted=True)
)
async def handle_text(
    request: Request,
    response: Response,
    context: Context,
    caller: Submitter,
    idempotency_key: IdempotencyHeader = None,
) -> SubmittedTask:
    """Submit a text of an object: after the object's earlier tasks, it is matched against word lists."""
    body = await read_json_body(request, context.opener, context.settings, caller.tenant, idempotency_key)
    submission = context.intake.text(caller.tenant, parse_json(body.data, HandleText), body.idempotency_key)
    return answer(await context.accept_path.submit(submission), response)


@router.post(
    "/calculate/handler",
    status_code=202,
    responses=_ANSWERS,
    openapi_extra=body(form="CalculateForm", json="Calculate", encrypted=True),
)
async def handle_calculation(
    request: Request,
    response: Response,
    context: Context,
    caller: Submitter,
    idempotency_key: IdempotencyHeader = None,
) -> SubmittedTask:
    """Submit a payload of an object: an engine makes text of it, which is matched against word lists."""
    submission = await _calculation_of(request, context, caller.tenant, idempotency_key)
    return answer(await context.accept_path.submit(submission), response)


async def _calculation_of(request: Request, context: ApiContext, tenant: str, key: str | None) -> Submission:
    intake = context.intake
    # Megabytes are parsed, decoded, hashed: off the loop.
    match media_type_of(request):
        case "multipart/form-data":
            form = await read_form(request, file_field="payload")

            def from_form() -> Submission:
                checked = checked_form(form, CalculateForm, file_field="payload")
                return intake.calculation(tenant, checked, checked.payload, form.file_name, key)

            return await asyncio.to_thread(from_form)
        case "application/json" | "application/jose":
            body = await read_json_body(request, context.opener, context.settings, tenant, key)
            return await asyncio.to_thread(
                lambda: intake.base64_payload(tenant, parse_json(body.data, Calculate), body.idempotency_key)
            )
        case _:
            raise UnsupportedMedia(
                "send the payload as multipart/form-data, or in base64 as application/json, which may be encrypted as "
                "application/jose"
            )
