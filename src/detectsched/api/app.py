"""The ASGI application."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from detectsched.api import openapi
from detectsched.api.auth import Authentication
from detectsched.api.context import ApiContext
from detectsched.api.edge import HANDLED, Edge
from detectsched.api.limits import BodyLimit
from detectsched.api.routes import (
    audit,
    batch,
    commands,
    dead_letters,
    detections,
    devices,
    encryption_keys,
    explain,
    handlers,
    lanes,
    objects,
    ocr,
    operations,
    reports,
    runners,
    tasks,
    tenant,
    webhooks,
    word_list_drafts,
    word_list_files,
    word_list_terms,
    word_list_trials,
    word_list_versions,
    word_lists,
)

# A batch's path would be taken for a task's id, and that of an object's commands for an object's name.
_ROUTES: Final = (
    ocr,
    handlers,
    batch,
    tasks,
    explain,
    word_lists,
    word_list_drafts,
    word_list_versions,
    word_list_files,
    word_list_trials,
    word_list_terms,
    commands,
    webhooks,
    detections,
    reports,
    audit,
    devices,
    objects,
    tenant,
    encryption_keys,
    lanes,
    runners,
    dead_letters,
    operations,
)


class _App(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Return the document, made at the first call."""
        if self.openapi_schema is None:
            self.openapi_schema = openapi.build(self, self.state.context.intake.known_names)
        return self.openapi_schema


def create_app(context: ApiContext) -> FastAPI:
    """Return the application on top of a context.

    Middleware is plain ASGI: Starlette's BaseHTTPMiddleware hides disconnects and cancels what runs behind it. The
    order is: id and answer to everything, then who is calling, then how much is read; only then the routes.
    """
    app = _App(
        title="detectsched",
        # Docs pages load scripts from elsewhere, and a redirect would repeat whatever Host a caller wrote.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    app.state.context = context
    routes: list[APIRoute] = []
    for module in _ROUTES:
        app.include_router(module.router)
        routes += [route for route in module.router.routes if isinstance(route, APIRoute)]

    async def answer(request: Request, error: Exception) -> Response:
        response = context.answer(request.scope, error)
        if response.status_code == 405:
            # Starlette names the methods of the first route that has the path, not of all.
            allowed = {method for route in routes if _has_path(route, request.scope) for method in route.methods or ()}
            response.headers["Allow"] = ", ".join(sorted(allowed)) or response.headers.get("Allow", "")
        return response

    for kind in HANDLED:
        app.add_exception_handler(kind, answer)
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, settings=context.settings.api)
    app.add_middleware(Authentication, keys=context.keys)
    app.add_middleware(Edge, metrics=context.metrics, stopping=context.stopping, answer=context.answer)
    return app


def _has_path(route: APIRoute, scope: Scope) -> bool:
    return route.matches(scope)[0] is not Match.NONE


def _operation_id(route: APIRoute) -> str:
    return route.name
