"""The original's handlers: tasks of objects, worked off one at a time and in order."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from detectsched.api.auth import Submitter
from detectsched.api.bodies import (
    Calculate,
    CalculateForm,
    HandleText,
    IdempotencyHeader,
    parse_json,
)
from detectsched.api.context import Context
from detectsched.api.encrypted import read_json_body
from detectsched.api.openapi import accepted, body, problems
from detectsched.api.schemas import SubmittedTask
from detectsched.api.uploads import read_upload
from detectsched.api.views import answer

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
    submission = await read_upload(
        request,
        context,
        caller.tenant,
        idempotency_key,
        field="payload",
        form_model=CalculateForm,
        json_model=Calculate,
        from_form=context.intake.calculation,
        from_json=context.intake.base64_payload,
    )
    return answer(await context.accept_path.submit(submission), response)
