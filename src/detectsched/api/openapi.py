"""The OpenAPI document, made fit for generators of clients.

FastAPI's own document says what a browser needs; generators need more: every error typed, bodies of several content
types, security schemes, no schema that nothing uses. A test validates the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from detectsched.api.auth import METRICS_PATH, PUBLIC_PATHS
from detectsched.api.bodies import (
    BatchLine,
    Calculate,
    CalculateForm,
    HandleText,
    ImageForm,
    SubmitImage,
    SubmitText,
)
from detectsched.api.decisions import (
    ChangeDevice,
    ChangeObject,
    ChangeTenant,
    CreateEncryptionKey,
    PauseRequest,
    PurgeRequest,
    RedriveRequest,
)
from detectsched.api.detections import DetectionReport, DetectionReports
from detectsched.api.fields import NAMED
from detectsched.api.list_states import ChangeDraft, PublishDraft, PutDraft, RollBack
from detectsched.api.list_trial import TryWordLists, TryWordListsForm
from detectsched.api.lists import PublishWordList
from detectsched.api.outbox_bodies import ChangeWebhook, CreateWebhook, PutCommandPolicy, RedriveDeliveries
from detectsched.api.problems import MEDIA_TYPE, Problem
from detectsched.jwe import MEDIA_TYPE as JOSE

NDJSON: Final = "application/x-ndjson"
BYTES: Final = "application/octet-stream"

_ENCRYPTED: Final = f"The JSON may come encrypted, as a JWE in the compact serialization with `{JOSE}`."
"""Only told: generated clients leave out an operation with a content type that they do not know."""

_BODIES: Final[tuple[type[BaseModel], ...]] = (
    SubmitText,
    SubmitImage,
    ImageForm,
    HandleText,
    Calculate,
    CalculateForm,
    ChangeObject,
    BatchLine,
    DetectionReport,
    DetectionReports,
    PublishWordList,
    PutDraft,
    ChangeDraft,
    PublishDraft,
    RollBack,
    TryWordLists,
    TryWordListsForm,
    PauseRequest,
    ChangeDevice,
    ChangeTenant,
    CreateEncryptionKey,
    RedriveRequest,
    PurgeRequest,
    PutCommandPolicy,
    CreateWebhook,
    ChangeWebhook,
    RedriveDeliveries,
)
LINES: Final = frozenset({NDJSON, BYTES, "application/ndjson", "application/jsonl"})
"""What is said of a body of one JSON document per line."""
_COMPONENTS: Final = "#/components/schemas/{model}"
_ALWAYS: Final = (401, 403, 422, 500, 503)

_DESCRIPTIONS: Final[dict[int, str]] = {
    400: "The body cannot be parsed.",
    401: "No API key, or not a good one.",
    403: "The API key lacks the scope of this operation.",
    404: "The caller's tenant has nothing of that name.",
    405: "The path is another one, which does not take this method.",
    409: "The state of the thing does not allow it.",
    413: "More bytes, pixels or lines than the limit.",
    415: "The content type, or the image's format, is not one that is taken.",
    422: "A field is missing, wrong or unknown.",
    429: "Too many tasks of this device or object wait.",
    500: "Something went wrong inside.",
    503: "Too many tasks wait in all, or a store is away.",
}
_HEADERS: Final[dict[str, Any]] = {
    "RetryAfter": {
        "description": "Seconds after which to try again.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "RequestId": {
        "description": "The `X-Request-Id` of the request, or one made for it; it stands in the log.",
        "schema": {"type": "string"},
    },
    "IdempotencyReplayed": {
        "description": "`true` when an earlier request with the same Idempotency-Key was accepted.",
        "schema": {"type": "string"},
    },
    "Location": {
        "description": "Where the task can be read.",
        "schema": {"type": "string"},
    },
}
_SECURITY: Final[dict[str, Any]] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key: `Authorization: Bearer ds_…`."},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key."},
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of an operation's errors: those named, and those that any may have."""
    return {status: _problem(status) for status in sorted({*statuses, *_ALWAYS})}


def accepted() -> dict[int | str, dict[str, Any]]:
    """Return the documentation of the two good answers of a submission."""
    headers = {"Location": _header("Location"), "Idempotency-Replayed": _header("IdempotencyReplayed")}
    schema = {"application/json": {"schema": {"$ref": _COMPONENTS.format(model="SubmittedTask")}}}
    return {
        200: {
            "description": "The task of an earlier request with the same Idempotency-Key, which has ended.",
            "headers": headers,
            "content": schema,
        },
        202: {"description": "The task is committed and queued.", "headers": headers},
    }


def body(*, encrypted: bool = False, **content: str) -> dict[str, Any]:
    """Return the documentation of a body that the route reads by itself.

    Args:
        encrypted: whether the JSON may come encrypted.
        content: names of models in `_BODIES`, under ``json`` and ``form``.
    """
    media = {"json": "application/json", "form": "multipart/form-data"}
    documented: dict[str, Any] = {
        "required": True,
        "content": {
            media[kind]: {"schema": {"$ref": _COMPONENTS.format(model=model)}} for kind, model in content.items()
        },
    }
    if encrypted:
        documented["description"] = _ENCRYPTED
    return {"requestBody": documented}


def optional_body(model: str) -> dict[str, Any]:
    """Return the documentation of a JSON body that may be left out."""
    documented = body(json=model)
    documented["requestBody"]["required"] = False
    return documented


def lines_body() -> dict[str, Any]:
    """Return the documentation of an NDJSON body: bytes to OpenAPI 3.1.

    As ``application/x-ndjson`` generated clients leave the operation out, or send the whole as one JSON string.
    """
    description = "One `BatchLine` per line, as JSON; rather said as `application/x-ndjson` where you can."
    return {
        "requestBody": {
            "required": True,
            "description": description,
            "content": {BYTES: {"schema": {"type": "string", "format": "binary"}}},
        }
    }


def file_body(*media_types: str) -> dict[str, Any]:
    """Return the documentation of a body that is a file, of one of several types: bytes, as of `lines_body`."""
    description = f"The file; rather said as {' or '.join(f'`{each}`' for each in media_types)} where you can."
    content = {BYTES: {"schema": {"type": "string", "format": "binary"}}}
    return {"requestBody": {"required": True, "description": description, "content": content}}


def many_body(model: str, line: str) -> dict[str, Any]:
    """Return the documentation of a JSON body of a model, or one of lines; these are only told.

    They can say no more than an array does, and a client of two types of body is generated wrong where the operation
    has no parameter (openapi-python-client 0.29).
    """
    documented = body(json=model, encrypted=True)
    documented["requestBody"]["description"] += f" One `{line}` per line may be sent as `{NDJSON}`."
    return documented


_LINKS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "submit_image": ("task_id", ("get_task", "explain_task", "cancel_task")),
    "submit_text": ("task_id", ("get_task", "explain_task", "cancel_task")),
    "handle_text": ("task_id", ("get_task", "explain_task", "cancel_task")),
    "handle_calculation": ("task_id", ("get_task", "explain_task", "cancel_task")),
    "create_webhook": ("webhook_id", ("get_webhook", "change_webhook", "rotate_webhook_secret", "delete_webhook")),
    "create_encryption_key": ("kid", ("retire_encryption_key",)),
}
"""Which operations go on with what an answer names, and what they call it."""
_NAMED_IN_ANSWER: Final = {"webhook_id": "id"}


def build(app: FastAPI, known: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the document of an application; ``known`` are the names that its server knows, by component."""
    document = get_openapi(
        title="detectsched",
        version=version("detectsched"),
        summary="Fair, durable scheduling of OCR and sensitive-word detection for fleets of devices",
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/", "description": "This server"}],
        routes=app.routes,
    )
    components = document.setdefault("components", {})
    components["schemas"] = dict(sorted({**components.get("schemas", {}), **_models(), **_names(known)}.items()))
    _name(document)
    components["headers"] = _HEADERS
    components["securitySchemes"] = _SECURITY
    for path, operations in document["paths"].items():
        for operation in operations.values():
            operation["security"] = _security_of(path)
            _link(operation)
            for response in operation["responses"].values():
                response.setdefault("headers", {})["X-Request-Id"] = _header("RequestId")
    return document


def _names(known: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {
        component: {
            "type": "string",
            "title": component,
            "description": "One that this server has.",
            **({"enum": list(names)} if names else {}),
        }
        for component, names in known.items()
    }


def _name(node: Any) -> None:
    """Put references to components in place of the schemas that ask for it."""
    if isinstance(node, dict):
        if (component := node.pop(NAMED, None)) is not None:
            kept = {key: node[key] for key in ("description", "default") if key in node}
            node.clear()
            node.update({"$ref": _COMPONENTS.format(model=component)}, **kept)
        for inner in node.values():
            _name(inner)
    elif isinstance(node, list):
        for inner in node:
            _name(inner)


def _link(operation: dict[str, Any]) -> None:
    """Say which operations go on with what a good answer names."""
    parameter, followers = _LINKS.get(operation["operationId"], ("", ()))
    expression = f"$response.body#/{_NAMED_IN_ANSWER.get(parameter, parameter)}"
    for status in set(operation["responses"]) & {"200", "201", "202"} if followers else ():
        operation["responses"][status]["links"] = {
            follower: {"operationId": follower, "parameters": {parameter: expression}} for follower in followers
        }


def _models() -> dict[str, Any]:
    """Return the schemas of what no route's signature names."""
    _, bodies = models_json_schema([(model, "validation") for model in _BODIES], ref_template=_COMPONENTS)
    _, errors = models_json_schema([(Problem, "serialization")], ref_template=_COMPONENTS)
    return {**bodies["$defs"], **errors["$defs"]}


def _security_of(path: str) -> list[dict[str, list[str]]]:
    if path in PUBLIC_PATHS:
        return []
    schemes: list[dict[str, list[str]]] = [{name: []} for name in _SECURITY]
    # On the machine itself no key is needed.
    return [*schemes, {}] if path == METRICS_PATH else schemes


def _problem(status: int) -> dict[str, Any]:
    documented: dict[str, Any] = {
        "description": _DESCRIPTIONS.get(status, HTTPStatus(status).phrase),
        "content": {MEDIA_TYPE: {"schema": {"$ref": _COMPONENTS.format(model="Problem")}}},
    }
    if status in {429, 503}:
        documented["headers"] = {"Retry-After": _header("RetryAfter")}
    return documented


def _header(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/headers/{name}"}
