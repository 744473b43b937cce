"""The test box: word lists and drafts on a text or an image."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from detectsched.api.auth import Admin
from detectsched.api.bodies import ImageForm, media_type_of, read_json
from detectsched.api.context import ApiContext, Context
from detectsched.api.forms import checked_form, read_form
from detectsched.api.list_trial import OBJECT, Trial, TryWordLists, TryWordListsForm, trial, waiting
from detectsched.api.openapi import body, problems
from detectsched.db import reads
from detectsched.db.models import EngineRecord
from detectsched.db.reads import TaskView
from detectsched.detection import Box, EngineResult, Line, ListVersion, Text
from detectsched.errors import Conflict, NotFound, TooLarge
from detectsched.task import TERMINAL_STATES, TaskState

router = APIRouter(prefix="/api/word-lists", tags=["word lists"])

_WAITING: Final[dict[int | str, dict[str, Any]]] = {
    202: {"description": "The image has not been read yet: ask again with its `task_id`.", "model": Trial}
}


@router.post(
    "/test",
    responses=_WAITING | problems(400, 404, 409, 413, 415, 429),
    openapi_extra=body(form="TryWordListsForm", json="TryWordLists"),
)
async def try_word_lists(
    request: Request,
    response: Response,
    context: Context,
    caller: Admin,
    wait: Annotated[
        float, Query(ge=0, allow_inf_nan=False, description="Seconds to wait until an image has been read.")
    ] = 20.0,
) -> Trial:
    """Say what published lists, or a draft, find in a text or an image; nothing follows from it.

    An image becomes an ordinary task of the object `word list test`, judged by no list: a runner reads it in its turn.
    """
    if media_type_of(request) == "multipart/form-data":
        return await _image(request, response, context, caller.tenant, wait)
    wanted = await read_json(request, TryWordLists)
    versions = await context.trials.versions(caller.tenant, wanted)
    if wanted.task_id is not None:
        return await _read_before(response, context, caller.tenant, wanted.task_id, versions, wait)
    text = Text(wanted.text or "")
    size, most = len(text.content.encode()), context.settings.api.max_text_bytes
    if size > most:
        raise TooLarge(f"the text has {size} bytes of UTF-8; at most {most} are taken", field="text")
    return trial(await context.trials.judge(caller.tenant, versions, text), text, None)


async def _image(request: Request, response: Response, context: ApiContext, tenant: str, wait: float) -> Trial:
    form = await read_form(request, file_field="image")
    wanted = await asyncio.to_thread(checked_form, form, TryWordListsForm, file_field="image")
    versions = await context.trials.versions(tenant, wanted)
    image = ImageForm(object=OBJECT, image=b"")
    submission = await asyncio.to_thread(context.intake.image, tenant, image, wanted.image, form.file_name, None)
    # Judged by no list it has no hits, hence no consequences; what it was read for is decided here.
    receipt = await context.accept_path.submit(replace(submission, word_lists=()))
    return await _read_before(response, context, tenant, receipt.task_id, versions, wait)


async def _read_before(
    response: Response, context: ApiContext, tenant: str, task_id: UUID, versions: list[ListVersion], wait: float
) -> Trial:
    async def has_ended() -> bool:
        state = await reads.task_state(context.ledger, tenant, task_id)
        return state is None or state in TERMINAL_STATES

    await context.waiters.wait(task_id, has_ended, seconds=min(wait, context.settings.api.max_wait_seconds))
    view = await reads.get_task(context.ledger, tenant, task_id)
    if view is None:
        raise NotFound("there is no such task")
    text = _text_of(view)
    if text is not None:
        return trial(await context.trials.judge(tenant, versions, text), text, task_id)
    state = TaskState(view.task.state)
    if state in TERMINAL_STATES:
        why = f": {view.task.error_detail}" if view.task.error_detail else ""
        raise Conflict(f"the task is {state.value}, and nothing was read{why}", field="task_id")
    response.status_code = 202
    return waiting(task_id, state, versions)


def _text_of(view: TaskView) -> Text | None:
    """Return what was searched in a task, or would have been; None while it is not read."""
    if view.task.engine is None:
        return Text(view.task.text or "")
    read = view.engine
    return None if read is None or read.state != "success" else _result(read).joined()


def _result(read: EngineRecord) -> EngineResult:
    lines = tuple(Line(line["text"], Box(*line["box"]), line["score"]) for line in read.lines)
    return EngineResult(read.engine, read.version, lines, read.width or 0, read.height or 0, read.seconds or 0.0)
