"""What those who run the system ask: alive, ready, figures, the level, the document of this API."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Depends, Request, Response

from detectsched.api import openapi
from detectsched.api.auth import METRICS_PATH, Reader, require_admin_or_this_machine
from detectsched.api.context import Context
from detectsched.api.metrics import CONTENT_TYPE
from detectsched.api.schemas import Health, HealthCheck, Watermark
from detectsched.db import deliveries
from detectsched.errors import NotFound, StoreUnavailable

router = APIRouter(tags=["operations"])

_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_VERBOSE: Final = {
    "name": "verbose",
    "in": "query",
    "required": False,
    "allowEmptyValue": True,
    "schema": {"type": "string"},
    "description": "Also tell every check; its value does not matter, as in `?verbose`.",
}
_NOT_READY: dict[int | str, dict[str, Any]] = {503: {"model": Health, "description": "It cannot do its work now."}}


@router.get("/livez")
async def check_alive() -> Health:
    """Say whether the process answers at all; nothing outside it is asked."""
    return Health(ok=True, checks=[])


@router.get("/readyz", responses=_NOT_READY, openapi_extra={"parameters": [_VERBOSE]})
async def check_ready(request: Request, response: Response, context: Context) -> Health:
    """Say whether requests can be served: stores, schema, queues, and whether it is stopping."""
    checks = await context.readiness.checks()
    ready = all(check.ok for check in checks)
    response.status_code = 200 if ready else 503
    told = [HealthCheck.model_validate(check) for check in checks] if "verbose" in request.query_params else []
    return Health(ok=ready, checks=told)


@router.get(
    METRICS_PATH,
    response_class=Response,
    responses=_TEXT | openapi.problems(),
    dependencies=[Depends(require_admin_or_this_machine)],
)
async def read_metrics(context: Context) -> Response:
    """Read the figures of this process and of the queues, for Prometheus."""
    try:
        level = await context.queue.level(context.settings.lanes)
        runners = await context.queue.registry.workers()
    except StoreUnavailable:
        level, runners = None, []
    try:
        outbox = await deliveries.totals(context.ledger)
    except StoreUnavailable:
        outbox = None
    return Response(context.metrics.render(level, runners, outbox), media_type=CONTENT_TYPE)


@router.get("/api/watermark", responses=openapi.problems(404))
async def get_watermark(context: Context, caller: Reader) -> Watermark:
    """Get the level of the system as the dispatcher published it last."""
    document = await context.queue.watermark()
    if document is None:
        raise NotFound("no level is published now; a dispatcher does it every few seconds")
    return Watermark.model_validate_json(document)


@router.get("/openapi.json", include_in_schema=False)
async def get_openapi(request: Request, caller: Reader) -> dict[str, Any]:
    """Get the document of this API."""
    document: dict[str, Any] = request.app.openapi()
    return document
