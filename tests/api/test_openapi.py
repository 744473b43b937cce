"""The OpenAPI document: valid, complete, and as generators of clients need it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from detectsched.api.problems import Code, Problem
from detectsched.errors import DetectschedError, TaskFailed
from tests.api.rig import Rig, problem
from tests.api.test_auth import WANTED
from tests.api.test_submit import text


@pytest.fixture
async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    """Give the document as a caller gets it."""
    answer = await client.get("/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every operation with its path."""
    for path, methods in document["paths"].items():
        for operation in methods.values():
            yield path, operation


def schemas_in(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a document."""
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from schemas_in(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from schemas_in(inner)


def test_it_is_valid(document: dict[str, Any]) -> None:
    """As OpenAPI 3.1."""
    assert document["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(document).validate()


def test_operations_are_named_by_their_functions(document: dict[str, Any]) -> None:
    """One id each, one tag each, security said for each."""
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert len(ids) == len(set(ids))
    assert set(ids) == (set(WANTED) - {"get_openapi"}) | {"check_alive", "check_ready"}
    for path, operation in operations(document):
        assert len(operation["tags"]) == 1
        assert (operation["security"] == []) is (path in {"/livez", "/readyz"})
        assert operation["summary"]


def test_every_error_is_typed(document: dict[str, Any]) -> None:
    """Every 4xx and 5xx is a Problem and nothing else; overload says when to come back."""
    for path, operation in operations(document):
        for status, response in operation["responses"].items():
            if status < "400" or path == "/readyz":
                continue
            assert response["content"] == {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            }, (path, status)
            assert ("Retry-After" in response["headers"]) is (status in {"429", "503"})
    assert "HTTPValidationError" not in document["components"]["schemas"]
    assert set(Problem.model_fields) == set(document["components"]["schemas"]["Problem"]["required"])


def test_the_codes_are_those_of_the_error_tree() -> None:
    """Whatever may become an answer has a code that is documented."""

    def tree(kind: type[DetectschedError]) -> Iterator[type[DetectschedError]]:
        yield kind
        for inner in kind.__subclasses__():
            yield from tree(inner)

    found = {kind.code for kind in tree(DetectschedError) if not issubclass(kind, TaskFailed)}
    assert found - {code.value for code in Code} == {"configuration"}, "an operator's error, told as internal"
    assert {code.value for code in Code} <= found


def test_schemas_are_such_as_generators_understand(document: dict[str, Any]) -> None:
    """Files are binary strings, discriminators have no defaults, no tuples, nothing unresolved, nothing unused."""
    form = document["paths"]["/api/ocr/image"]["post"]["requestBody"]["content"]
    assert list(form) == ["multipart/form-data", "application/json"]
    components = document["components"]["schemas"]
    assert components["ImageForm"]["properties"]["image"] == {
        "description": "The image file, as a part with a file name.",
        "format": "binary",
        "title": "Image",
        "type": "string",
    }
    line = components["BatchLine"]
    assert line["discriminator"]["propertyName"] == "kind"
    for name in ("TextLine", "ImageLine"):
        assert "kind" in components[name]["required"]
        assert "default" not in components[name]["properties"]["kind"]
    text_of = json.dumps(document)
    for word in ("prefixItems", "itemSchema", "contentMediaType"):
        assert word not in text_of
    references = {node["$ref"] for node in schemas_in(document) if "$ref" in node}
    defined = {f"#/components/schemas/{name}" for name in components}
    assert {ref for ref in references if "/schemas/" in ref} <= defined
    # A batch is a string to OpenAPI; its lines are documented for people.
    assert defined - references == {"#/components/schemas/BatchLine"}
    for name, schema in components.items():
        if name not in {"SubmitText", "SubmitImage", "ImageForm", "TextLine", "ImageLine"} and "properties" in schema:
            assert set(schema["properties"]) == set(schema.get("required", ())) or "additionalProperties" in schema


async def test_answers_are_as_documented(rig: Rig, client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    """Every field of every kind of answer is declared, and the headers too."""
    task_id = (await client.post("/api/ocr/text", json=text())).json()["task_id"]
    answers = {
        "TaskDetail": await client.get(f"/api/tasks/{task_id}"),
        "TaskPage": await client.get("/api/tasks"),
        "SubmittedTask": await client.post("/api/ocr/text", json=text()),
        "Problem": await client.post("/api/ocr/text", json=text(lane="gpu")),
        "Health": await client.get("/readyz?verbose"),
    }
    problem(answers["Problem"], 422, "invalid_request")
    for name, answer in answers.items():
        assert set(answer.json()) == set(document["components"]["schemas"][name]["properties"]), name
    assert "X-Request-Id" in document["paths"]["/api/tasks"]["get"]["responses"]["200"]["headers"]
    assert rig.settings.lanes == ("ocr", "text")
