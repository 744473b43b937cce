"""The OpenAPI document says what the code takes: clients can check a request by it before they send it."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from openapi_schema_validator import OAS31Validator

from detectsched.errors import InvalidRequest
from detectsched.task import normalise_mac, normalise_object
from tests.api.rig import MAC, Rig, png, problem
from tests.api.test_openapi import document, operations, schemas_in

__all__ = ["document"]

YEAR_1, YEAR_9999 = "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"


def allows(document: dict[str, Any], model: str, body: dict[str, Any]) -> bool:
    """Return whether a component of the document takes a body."""
    schema = {"$ref": f"#/components/schemas/{model}", "components": document["components"]}
    return bool(OAS31Validator(schema).is_valid(body))


def schema_of(document: dict[str, Any], model: str, field: str) -> dict[str, Any]:
    """Return what is said of a field, null aside."""
    said: dict[str, Any] = document["components"]["schemas"][model]["properties"][field]
    return next((choice for choice in said.get("anyOf", []) if choice.get("type") != "null"), said)


@pytest.mark.parametrize(
    ("model", "field", "lowest", "highest"),
    [
        ("SubmitText", "ttl_seconds", 1, 604_800),
        ("ImageForm", "ttl_seconds", 1, 604_800),
        ("DetectionHit", "level", 1, 100),
        ("DetectionHit", "count", 1, 1_000_000),
        ("WordEntry", "level", 1, 100),
        ("Options", "max_gap", 0, 16),
        ("PutCommandPolicy", "max_level", 1, 100),
        ("RedriveDeliveries", "limit", 1, 10_000),
        ("ChangeDevice", "in_flight", 0, 100_000),
    ],
)
def test_numbers_have_their_limits(document: dict[str, Any], model: str, field: str, lowest: int, highest: int) -> None:
    """Those of whole numbers, too, which may be written as 60.0."""
    said = schema_of(document, model, field)
    assert (said["type"], said["minimum"], said["maximum"]) == ("integer", lowest, highest)


async def test_a_whole_number_may_have_a_point(client: httpx.AsyncClient) -> None:
    """As JSON does not tell 5 from 5.0, wherever one is taken."""
    assert (await client.patch(f"/api/devices/{MAC}", json={"in_flight": 5.0, "burst": 2.0})).status_code == 200
    selected = {"filter": {}, "expected_count": 3.0}
    problem(await client.post("/api/dead-letters/purge", json=selected), 404, "not_found")


@pytest.mark.parametrize(
    "text",
    [
        "AA:BB:CC:DD:EE:01",
        "aa-bb-cc-dd-ee-01",
        "aabb.ccdd.ee01",
        "AaBbCcDdEe01",
        "00:00:00:00:00:01",
        "ff:ff:ff:ff:ff:fe",
        "AA:BB-CC:DD:EE:01",
        "AA:BB:CC:DD:EE",
        "AABBCCDDEE0",
        "AABBCCDDEE011",
        "0000.0000.0000",
        "ff-ff-ff-ff-ff-ff",
        "FfFfFfFfFfFf",
        "00:00:00:00:00:00",
        "gg:bb:cc:dd:ee:01",
        "",
    ],
)
def test_the_pattern_of_mac_addresses_is_what_is_taken(document: dict[str, Any], text: str) -> None:
    """Every usual spelling, and no address that names no single device."""
    try:
        normalise_mac(text)
        taken = True
    except InvalidRequest:
        taken = False
    assert bool(re.search(schema_of(document, "SubmitText", "mac")["pattern"], text)) is taken


@pytest.mark.parametrize(
    "name",
    [
        "case 17",
        " x ",
        "a\tb",
        "\u3000x",
        "é",
        "a\x85b",
        "",
        " ",
        "\u3000\t",
        "\x85",
        "a\x00",
        "\x1b",
        "a\x7f",
        "a\x9f",
    ],
)
def test_the_pattern_of_object_names_is_what_is_taken(document: dict[str, Any], name: str) -> None:
    """Anything that can be seen, without control characters other than white space."""
    try:
        normalise_object(name)
        taken = True
    except InvalidRequest:
        taken = False
    assert bool(re.search(schema_of(document, "HandleText", "object")["pattern"], name)) is taken


@pytest.mark.parametrize(
    ("model", "body", "allowed"),
    [
        ("SubmitText", {"text": "t", "mac": MAC}, True),
        ("SubmitText", {"text": "t", "mac": None, "object": "o"}, True),
        ("SubmitText", {"text": "t"}, False),
        ("SubmitText", {"text": "t", "mac": None, "object": None}, False),
        ("SubmitText", {"text": "t", "mac": MAC, "object": "o"}, False),
        ("SubmitText", {"mac": MAC}, False),
        ("SubmitText", {"text": "a\0b", "mac": MAC}, False),
        ("HandleText", {"text": "a\nb", "object": "o"}, True),
        ("SubmitImage", {"image": "AAAA", "mac": MAC}, True),
        ("SubmitImage", {"image_url": "https://a.invalid/i.png", "object": "o"}, True),
        ("SubmitImage", {"mac": MAC}, False),
        ("SubmitImage", {"image": "AAAA", "image_url": "https://a.invalid/i.png", "mac": MAC}, False),
        ("SubmitImage", {"image": "AAAA"}, False),
        ("TextLine", {"kind": "text", "text": "t"}, False),
        ("ChangeDevice", {"weight": None}, True),
        ("ChangeDevice", {}, False),
        ("ChangeDevice", {"rate": 0.0}, True),
        ("ChangeDevice", {"rate": 0.005}, False),
        ("ChangeWebhook", {"enabled": True}, True),
        ("ChangeWebhook", {"enabled": None, "url": None}, False),
        ("PurgeRequest", {"filter": {}, "dry_run": True}, True),
        ("PurgeRequest", {"filter": {}, "expected_count": 0}, True),
        ("PurgeRequest", {"filter": {}}, False),
        ("PutCommandPolicy", {"kind": "custom", "payload": {"a": 1}}, True),
        ("PutCommandPolicy", {"kind": "notify", "payload": {}}, True),
        ("PutCommandPolicy", {"kind": "notify", "payload": {"a": 1}}, False),
        ("RuleEntry", {"kind": "regex", "pattern": "a+"}, True),
        ("RuleEntry", {"kind": "email"}, True),
        ("RuleEntry", {"kind": "regex", "pattern": ""}, False),
        ("ChangeDraft", {"remove": []}, True),
        ("ChangeDraft", {"revision": 1}, False),
        ("TryWordLists", {"text": "t"}, True),
        ("TryWordLists", {}, False),
        ("DetectionReports", [{"report_id": "r", "mac": MAC}], True),
        ("DetectionReports", [], False),
    ],
)
def test_what_fields_mean_to_each_other_is_said(
    document: dict[str, Any], model: str, body: dict[str, Any], allowed: bool
) -> None:
    """Which are needed, and which exclude each other, in keywords that generators of clients pass over."""
    assert allows(document, model, body) is allowed
    assert (
        not {"anyOf", "oneOf", "allOf"} & set(document["components"]["schemas"][model]) or model == "DetectionReports"
    )


async def test_names_are_those_of_this_server(rig: Rig, client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    """Lanes and engines: whoever asks for the document learns which there are, and each is taken."""
    components = document["components"]["schemas"]
    assert components["LaneName"]["enum"] == list(rig.settings.lanes)
    assert components["EngineLaneName"]["enum"] == ["ocr"]
    assert components["EngineName"]["enum"] == list(rig.context.intake.known_names["EngineName"])
    for lane in components["LaneName"]["enum"]:
        text = await client.post("/api/ocr/text", json={"text": "t", "mac": MAC, "lane": lane})
        assert text.status_code == 202, text.text
    for lane in components["EngineLaneName"]["enum"]:
        form = {"files": {"image": ("i.png", png(), "image/png")}, "data": {"mac": MAC, "lane": lane}}
        image = await client.post("/api/ocr/image", **form)  # type: ignore[arg-type]
        assert image.status_code == 202, image.text
    assert not [node for node in schemas_in(document) if "x-named" in node]


@pytest.mark.parametrize(
    "path",
    [
        "/api/dead-letters?since={first}&until={last}&cursor={cursor}",
        "/api/detections?since={first}&until={last}",
        "/api/audit?since={first}&until={last}&cursor=______________________==",
        "/api/commands?cursor={cursor}",
        "/api/webhook-deliveries?cursor={cursor}",
    ],
)
@pytest.mark.parametrize("cursor", ["_" * 32, "A" * 32, "gAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"])
async def test_every_time_and_every_cursor_can_be_asked_for(client: httpx.AsyncClient, path: str, cursor: str) -> None:
    """The first year means always, the last never; a place beyond the calendar is at its end."""
    first, last = (moment.replace("+", "%2B") for moment in (YEAR_1, YEAR_9999))
    answer = await client.get(path.format(first=first, last=last, cursor=cursor))
    assert answer.status_code == 200, answer.text


async def test_every_number_of_a_version_can_be_asked_for(client: httpx.AsyncClient) -> None:
    """Also the greatest, which no list has."""
    for path in ("versions/2147483647", "diff?old=999999999&new=current"):
        problem(await client.get(f"/api/word-lists/mine/{path}"), 404, "not_found")


@pytest.mark.parametrize("by", ["hour", "day", "total"])
async def test_a_time_zone_that_is_none_is_refused(client: httpx.AsyncClient, by: str) -> None:
    """Also where nothing is counted by days."""
    answer = await client.get("/api/reports/tasks", params={"by": by, "zone": "Atlantis/Capital"})
    problem(answer, 422, "invalid_request", field="zone")


async def test_only_formats_that_a_route_has_are_named(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    """The others are refused."""
    for path, other in (("/api/audit", "xlsx"), ("/api/reports/tasks", "ndjson")):
        [said] = [each for each in document["paths"][path]["get"]["parameters"] if each["name"] == "format"]
        [name] = [choice["$ref"].rpartition("/")[2] for choice in said["schema"]["anyOf"] if "$ref" in choice]
        for form in document["components"]["schemas"][name]["enum"]:
            assert (await client.get(path, params={"format": form})).status_code == 200
        problem(await client.get(path, params={"format": other}), 422, "invalid_request", field="format")


def test_whatever_is_sent_is_described(document: dict[str, Any]) -> None:
    """Every parameter, and every field of a body."""
    for path, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (path, parameter["name"])
    for name, schema in document["components"]["schemas"].items():
        if schema.get("additionalProperties") is False:
            for field, said in schema["properties"].items():
                assert said.get("description"), (name, field)


def test_forms_hold_no_null(document: dict[str, Any]) -> None:
    """A form cannot say it: generated clients would send the word."""
    for name in ("ImageForm", "CalculateForm", "TryWordListsForm"):
        for field, said in document["components"]["schemas"][name]["properties"].items():
            assert "anyOf" not in said, (name, field)


def test_generated_clients_know_what_the_document_is_made_of(document: dict[str, Any]) -> None:
    """Of a body with a type that they do not know they leave out the operation; schemas they want as objects."""
    for schema in schemas_in(document):
        properties = schema.get("properties", {})
        assert False not in properties.values(), properties
    known = {"application/json", "multipart/form-data", "application/octet-stream"}
    for path, operation in operations(document):
        assert set(operation.get("requestBody", {}).get("content", {})) <= known, path


async def test_what_is_to_happen_too_late_is_still_refused(client: httpx.AsyncClient) -> None:
    """As is any time more than 30 days ahead; one that is past means now, however long."""
    body = {"text": "t", "mac": MAC}
    late = await client.post("/api/ocr/text", json={**body, "not_before": YEAR_9999})
    problem(late, 422, "invalid_request", field="not_before")
    answer = await client.post("/api/ocr/text", json={**body, "not_before": YEAR_1})
    assert answer.status_code == 202, answer.text


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/api/objects/case%2017/pause", "POST"),
        ("GET", "/api/objects/case%2017/resume", "POST"),
        ("PATCH", "/api/objects/a/b/commands", "GET"),
        ("PATCH", "/api/objects/case/commands/0199f0d8-0000-7000-8000-000000000001/ack", "POST"),
        ("DELETE", "/api/objects/case%2017", "GET, PATCH"),
        ("PATCH", "/api/word-lists/test", "DELETE, GET, POST, PUT"),
    ],
)
async def test_a_wrong_method_is_not_taken_for_a_name(
    client: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    """The paths below an object are those of its operations."""
    answer = await client.request(method, path)
    problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize("name", ["a/b", "a%2Fpause/x", "pause", "commands", "a%0Ab", "a//b"])
async def test_names_of_objects_may_have_slashes(client: httpx.AsyncClient, name: str) -> None:
    """And be words of ours."""
    made = await client.patch(f"/api/objects/{name}", json={"word_lists": None})
    assert made.status_code == 200, made.text
    assert (await client.get(f"/api/objects/{name}")).json()["object"] == made.json()["object"]


async def test_links_lead_to_operations(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    """Each names an operation and a parameter that it has, and the field of the answer that fills it."""
    found = {operation["operationId"]: operation for _, operation in operations(document)}
    links = [
        (operation["operationId"], link)
        for operation in found.values()
        for response in operation["responses"].values()
        for link in response.get("links", {}).values()
    ]
    assert len(links) > 20
    for _, link in links:
        parameters = {parameter["name"] for parameter in found[link["operationId"]]["parameters"]}
        assert set(link["parameters"]) <= parameters
    hook = (await client.post("/api/webhooks", json={"url": "https://hook.invalid/"})).json()
    task = (await client.post("/text/handler", json={"text": "t", "object": "o"})).json()
    answers = {"create_webhook": hook, "handle_text": task}
    for operation_id, link in links:
        for expression in link["parameters"].values() if operation_id in answers else ():
            assert expression.removeprefix("$response.body#/") in answers[operation_id]
