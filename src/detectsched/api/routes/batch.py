"""Submitting many images and texts at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from fastapi import APIRouter, Request

from detectsched.api.auth import Submitter
from detectsched.api.bodies import BatchLine, ImageLine, media_type_of, parse_json
from detectsched.api.context import ApiContext, Context
from detectsched.api.intake import Intake, Submission
from detectsched.api.openapi import LINES, NDJSON, lines_body, problems
from detectsched.api.problems import instance_of
from detectsched.api.schemas import BatchOutcome, LineOutcome
from detectsched.api.submission import Receipt
from detectsched.api.views import submitted
from detectsched.errors import InvalidRequest, RequestRefused, TooLarge, UnsupportedMedia
from detectsched.settings import ApiSettings
from detectsched.task import TERMINAL_STATES

router = APIRouter(prefix="/api/tasks", tags=["submissions"])

_CHUNK: Final = 200
"""Lines accepted together; between chunks the single requests of others get their turn."""

_Line: TypeAlias = tuple[int, bytes]


@router.post("/batch", responses=problems(413, 415), openapi_extra=lines_body())
async def submit_batch(request: Request, context: Context, caller: Submitter) -> BatchOutcome:
    """Submit many tasks, one `BatchLine` per line; they are accepted in the order of the lines.

    A line that is wrong or refused does not keep the others from being accepted. After a lost answer the whole batch
    may be sent again if its lines have idempotency keys.
    """
    if media_type_of(request) not in LINES:
        raise UnsupportedMedia(f"send one JSON document per line as {NDJSON}")
    lines = _lines_of(await request.body(), context.settings.api)
    results: list[LineOutcome] = []
    for start in range(0, len(lines), _CHUNK):
        results += await _accept(lines[start : start + _CHUNK], request, context, caller.tenant)
    refused = sum(outcome.problem is not None for outcome in results)
    return BatchOutcome(accepted=len(results) - refused, refused=refused, results=results)


def _lines_of(body: bytes, limits: ApiSettings) -> list[_Line]:
    """Return the lines that are not empty, each with its number.

    Raises:
        TooLarge: more lines than the limit.
        InvalidRequest: none.
    """
    lines = [(number, line) for number, line in enumerate(body.split(b"\n"), start=1) if line.strip()]
    if len(lines) > limits.max_batch_lines:
        raise TooLarge(f"the batch has {len(lines)} lines; at most {limits.max_batch_lines} are taken: split it")
    if not lines:
        raise InvalidRequest("the batch is empty: send one JSON document per line")
    return lines


async def _accept(lines: Sequence[_Line], request: Request, context: ApiContext, tenant: str) -> list[LineOutcome]:
    # Up to megabytes are parsed, decoded, hashed: off the loop.
    read = await asyncio.to_thread(lambda: [_read(line, context.intake, tenant) for _, line in lines])
    receipts = iter(await context.accept_path.submit_all([item for item in read if isinstance(item, Submission)]))
    outcomes: Iterator[Receipt | Exception] = (
        next(receipts) if isinstance(item, Submission) else item for item in read
    )
    path = instance_of(request.scope)
    return [
        _outcome(number, outcome, context, f"{path}#{number}")
        for (number, _), outcome in zip(lines, outcomes, strict=True)
    ]


def _read(line: bytes, intake: Intake, tenant: str) -> Submission | RequestRefused:
    try:
        document = parse_json(line, BatchLine, what="the line").root
        if isinstance(document, ImageLine):
            if document.image_url is not None:
                # A batch of them would keep its request open for as long as the slowest servers like.
                raise InvalidRequest("send images by URL one at a time, to /api/ocr/image", field="image_url")
            return intake.json_image(tenant, document, document.idempotency_key)
        return intake.text(tenant, document, document.idempotency_key)
    except RequestRefused as refusal:
        return refusal


def _outcome(number: int, outcome: Receipt | Exception, context: ApiContext, instance: str) -> LineOutcome:
    if isinstance(outcome, Exception):
        problem = context.answer.problem(outcome, instance=instance)
        return LineOutcome(line=number, status=problem.status, problem=problem)
    ended = outcome.replayed and outcome.state in TERMINAL_STATES
    return LineOutcome(line=number, status=200 if ended else 202, task=submitted(outcome))
