"""Whatever is wrong with a request is refused with what to change, and leaves nothing behind."""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import uuid4

import httpx
import pytest
import structlog
from pydantic import SecretStr

from detectsched.api.app import create_app
from detectsched.api.context import ApiContext
from detectsched.db.connection import Ledger
from detectsched.settings import PostgresSettings
from tests.api.rig import MAC, Rig, bearer, png, problem
from tests.api.test_submit import text

JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
async def _nothing_is_left(rig: Rig) -> Any:
    yield
    assert await rig.rows() == []
    assert await rig.pending() == 0


BAD_TEXTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("bad MAC", text(mac="AA:BB:CC"), "mac", "AA-BB-CC-DD-EE-FF"),
    ("mixed MAC", text(mac="AA:BB-CC:DD:EE:FF"), "mac", "is not a MAC address"),
    ("nobody's MAC", text(mac="ff:ff:ff:ff:ff:ff"), "mac", "no single device"),
    ("no subject", text(mac=None), "mac", "neither"),
    ("two subjects", text(object="door"), "mac", "both"),
    ("empty object", text(mac=None, object="  "), "object", "empty"),
    ("control characters", text(mac=None, object="a\x07b"), "object", "control"),
    ("long object", text(mac=None, object="x" * 201), "object", "200"),
    ("no text", {"mac": MAC}, "text", "required"),
    ("empty text", text(text=""), "text", "at least 1"),
    ("NUL", text(text="a\0b"), "text", "U+0000"),
    ("a number as text", text(text=5), "text", "string"),
    ("unknown field", text(txet="x"), "txet", "no such field"),
    ("unknown lane", text(lane="gpu"), "lane", "ocr, text"),
    ("no lane's name", text(lane="a lane"), "lane", "pattern"),
    ("no lists", text(word_lists=[]), "word_lists", "at least 1"),
    ("no list id", text(word_lists=["A,B"]), "word_lists.0", "pattern"),
    ("unknown list", text(word_lists=["nope"]), "word_lists", "nope"),
    ("ttl zero", text(ttl_seconds=0), "ttl_seconds", "greater"),
    ("ttl too long", text(ttl_seconds=604_801), "ttl_seconds", "604800"),
    ("ttl as text", text(ttl_seconds="60"), "ttl_seconds", "integer"),
    ("ttl with a point", text(ttl_seconds=1.5), "ttl_seconds", "integer"),
    ("ttl as truth", text(ttl_seconds=True), "ttl_seconds", "integer"),
]


async def test_a_text_with_a_wrong_field(client: httpx.AsyncClient, subtests: pytest.Subtests) -> None:
    """The answer names the field and what to change."""
    for name, body, field, words in BAD_TEXTS:
        with subtests.test(name):
            answer = await client.post("/api/ocr/text", json=body)
            assert words in problem(answer, 422, "invalid_request", field=field)["detail"]


async def test_every_wrong_field_is_told_at_once(client: httpx.AsyncClient) -> None:
    """Nobody has to send a request five times to learn of five mistakes."""
    answer = await client.post("/api/ocr/text", json={"mac": 1, "text": 2, "lane": 3, "more": 4})
    told = problem(answer, 422, "invalid_request")
    assert [error["field"] for error in told["errors"]] == ["lane", "mac", "text", "more"]


NO_JSON = [
    (b"", "EOF"),
    (b'{"mac":', "EOF"),
    (b"\xff\xfe", "expected value"),
    (b"[" * 100_000, "recursion"),
    (b'{"text": "\\ud800"}', "pair"),
    (b'{"text": "\\udc00x"}', "pair"),
    (b'{"text": "\xed\xa0\x80"}', "unicode"),
    (b'{"ttl_seconds": ' + b"9" * 5000 + b"}", "number"),
]


async def test_a_name_made_up_by_a_caller_breaks_no_line(client: httpx.AsyncClient) -> None:
    """Fields, parameters and parts are named as they are when they can be printed, else in escapes; never at length."""
    made_up = "a\r\n\x1b[31m\u2028b"
    told = [
        await client.post("/api/ocr/text", json=text(**{made_up: 1})),
        await client.get("/api/tasks", params={made_up: "1"}),
        await client.post("/api/ocr/image", files={"image": ("x.png", png())}, data={"mac": MAC, "\u2028": ["1", "2"]}),
        await client.post("/api/ocr/text", json=text(**{"x" * 5000: 1})),
    ]
    for answer in told:
        document = problem(answer, 422, "invalid_request")
        assert document["detail"].isprintable()
        assert len(answer.text) < 2000


async def test_what_is_no_json_is_malformed(client: httpx.AsyncClient, subtests: pytest.Subtests) -> None:
    """400, with where it stops being JSON; JSON that is no object is 422."""
    for body, words in NO_JSON:
        with subtests.test(str(body[:30])):
            answer = await client.post("/api/ocr/text", content=body, headers=JSON)
            assert words in problem(answer, 400, "malformed")["detail"]
    for body in (b"[]", b"null", b"5", b'"x"', b'{"mac": NaN}'):
        with subtests.test(str(body)):
            problem(await client.post("/api/ocr/text", content=body, headers=JSON), 422, "invalid_request")


async def test_another_content_type_is_refused(client: httpx.AsyncClient) -> None:
    """415, with the one to use; also where there is none."""
    body = json.dumps(text()).encode()
    for path in ("/api/ocr/text", "/api/ocr/image", "/api/tasks/batch"):
        for headers in ({"Content-Type": "text/plain"}, {}):
            answer = await client.post(path, content=body, headers=headers)
            assert "application/" in problem(answer, 415, "unsupported_media")["detail"]


async def test_a_text_too_long(rig: Rig, client: httpx.AsyncClient) -> None:
    """Its bytes of UTF-8 are counted, however JSON writes them; at the limit it is taken."""
    most = rig.settings.api.max_text_bytes
    for kept_as in (True, False):
        body = json.dumps(text(text="中" * (most // 3 + 1)), ensure_ascii=kept_as).encode()
        answer = await client.post("/api/ocr/text", content=body, headers=JSON)
        assert str(most) in problem(answer, 413, "too_large", field="text")["detail"]
    widest = ("\x01" * most).encode()
    assert len(json.dumps(widest.decode())) > 6 * most
    # The route's own limit lets the widest spelling of a text of the greatest length pass; an unknown list stops it.
    answer = await client.post("/api/ocr/text", json=text(text=widest.decode(), word_lists=["nope"]))
    problem(answer, 422, "invalid_request", field="word_lists")


def inline(data: bytes, **fields: Any) -> dict[str, Any]:
    """Return an image as JSON."""
    return {"mac": MAC, "image": base64.b64encode(data).decode()} | fields


NO_IMAGE = [
    ("empty", b"", 415, "unsupported_media"),
    ("text", b"not an image", 415, "unsupported_media"),
    ("PDF", b"%PDF-1.7", 415, "unsupported_media"),
    ("SVG", b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "unsupported_media"),
    ("cut short", png()[:20], 415, "unsupported_media"),
    ("too small", png(7, 100), 422, "invalid_request"),
    ("too many pixels", png(6400, 6300), 413, "too_large"),
]


async def test_what_is_no_image(client: httpx.AsyncClient, subtests: pytest.Subtests) -> None:
    """The same answer by form and by JSON, naming the field."""
    for name, data, status, code in NO_IMAGE:
        with subtests.test(name):
            form = await client.post("/api/ocr/image", files={"image": ("x.png", data)}, data={"mac": MAC})
            problem(form, status, code, field="image")
            if data:
                problem(await client.post("/api/ocr/image", json=inline(data)), status, code, field="image")


async def test_an_image_file_too_large(rig: Rig, client: httpx.AsyncClient) -> None:
    """One byte over the limit is refused, by form and by JSON, and told how large it may be."""
    most = rig.settings.api.max_image_bytes
    data = png() + bytes(most + 1 - len(png()))
    for answer in (
        await client.post("/api/ocr/image", files={"image": ("x.png", data, "image/png")}, data={"mac": MAC}),
        await client.post("/api/ocr/image", json=inline(data)),
    ):
        assert str(most) in problem(answer, 413, "too_large", field="image")["detail"]


async def test_what_is_no_base64(client: httpx.AsyncClient, subtests: pytest.Subtests) -> None:
    """400, with which base64 is meant."""
    for coded in ("x", "====", "a b=", "aGk", "aGk=\n", "_-__", "data:image/png;base64,aGk=", "中"):
        with subtests.test(coded):
            answer = await client.post("/api/ocr/image", json={"mac": MAC, "image": coded})
            assert "base64" in problem(answer, 400, "malformed", field="image")["detail"]


async def test_an_image_cannot_go_where_no_engine_is(client: httpx.AsyncClient) -> None:
    """The text lane is refused for images."""
    problem(await client.post("/api/ocr/image", json=inline(png(), lane="text")), 422, "invalid_request", field="lane")


async def test_a_form_that_is_wrong(client: httpx.AsyncClient) -> None:
    """Missing, double and misplaced parts, wrong values, and what is no form."""
    files = {"image": ("x.png", png(), "image/png")}

    async def post(**parts: Any) -> httpx.Response:
        return await client.post("/api/ocr/image", **parts)

    problem(await post(files={"mac": (None, MAC)}), 422, "invalid_request", field="image")
    problem(await post(files={"mac": (None, MAC), "image": (None, "x")}), 422, "invalid_request", field="image")
    problem(await post(files={"picture": files["image"], "mac": (None, MAC)}), 422, "invalid_request", field="picture")
    problem(await post(files=files, data={"mac": [MAC, MAC]}), 422, "invalid_request", field="mac")
    problem(await post(files=files, data={"mac": MAC, "ttl_seconds": "x"}), 422, "invalid_request", field="ttl_seconds")
    problem(await post(files=files, data={"mac": MAC, "tll_seconds": "5"}), 422, "invalid_request", field="tll_seconds")
    problem(await post(files=files, data={"mac": MAC, "lane": "gpu"}), 422, "invalid_request", field="lane")
    problem(await post(files=files), 422, "invalid_request", field="mac")
    problem(await post(files=[("image", files["image"]), ("image", files["image"])]), 400, "malformed")
    problem(await post(files=files, data={f"f{i}": "x" for i in range(300)}), 400, "malformed")
    problem(await post(files=files, data={"mac": "x" * 20_000}), 400, "malformed")
    broken = {"Content-Type": "multipart/form-data; boundary=x"}
    problem(await post(content=b"--x\r\nno header\r\n", headers=broken), 400, "malformed")
    problem(await post(content=b"--x--", headers={"Content-Type": "multipart/form-data"}), 400, "malformed")
    cut = b'--x\r\nContent-Disposition: form-data; name="image"; filename="x"\r\n\r\n' + png() + b"\r\n--x\r\n"
    assert "last boundary" in problem(await post(content=cut, headers=broken), 400, "malformed")["detail"]


async def test_a_key_that_is_none(client: httpx.AsyncClient) -> None:
    """An Idempotency-Key is up to 200 visible characters."""
    for key in ("", "a b", "x" * 201):
        answer = await client.post("/api/ocr/text", json=text(), headers={"Idempotency-Key": key})
        problem(answer, 422, "invalid_request", field="Idempotency-Key")


async def test_a_bug_tells_nothing(rig: Rig, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 with the request id and no word of what happened; that stands in the log, under the same id."""

    def broken(*_: Any) -> Any:
        raise RuntimeError("SELECT secret FROM somewhere")

    monkeypatch.setattr(type(rig.context.intake), "text", broken)
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logged:
        answer = await client.post("/api/ocr/text", json=text(), headers={"X-Request-Id": "my-id.1"})
    problem(answer, 500, "internal")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert answer.headers["x-request-id"] == "my-id.1"
    [line] = [line for line in logged if line["log_level"] == "error"]
    assert "SELECT secret" in repr(line["exc_info"])
    assert line["request_id"] == "my-id.1"


async def test_a_store_that_is_away_tells_nothing(rig: Rig) -> None:
    """503 without addresses; also where the caller cannot even be recognised."""
    away = Ledger(PostgresSettings(url=SecretStr("postgresql://someone@127.0.0.1:1/secret")))
    context = ApiContext.make(rig.queue, away, rig.blobs, rig.settings)
    transport = httpx.ASGITransport(create_app(context))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://api", headers=bearer(rig.keys["acme"])
    ) as client:
        answer = await client.post("/api/ocr/text", json=text())
    assert problem(answer, 503, "unavailable")["retry_after"] == rig.settings.api.retry_after_seconds
    assert "127.0.0.1" not in answer.text
    assert "secret" not in answer.text
    await away.close()


async def test_a_request_id_that_could_break_a_log_line_is_replaced(client: httpx.AsyncClient) -> None:
    """Only plain ids are taken over."""
    for given in (b"", b"x" * 65, b"a\tb", b"a\x1b[31mb", "naïve".encode("latin-1")):
        answer = await client.get("/livez", headers={b"X-Request-Id": given})
        assert len(answer.headers["x-request-id"]) == 16


async def test_paths_and_methods_that_do_not_exist(client: httpx.AsyncClient) -> None:
    """Problems, too; 405 says what is allowed."""
    problem(await client.get("/api/nothing"), 404, "not_found")
    problem(await client.get("/api/ocr/text/"), 404, "not_found")
    problem(await client.get("/api/tasks/not-a-uuid"), 404, "not_found")
    for method, path, allowed in (
        ("PUT", "/api/ocr/text", "POST"),
        ("GET", "/api/tasks/batch", "POST"),
        ("POST", f"/api/tasks/{uuid4()}", "DELETE, GET"),
        ("PATCH", "/api/word-lists/mine", "DELETE, GET, PUT"),
    ):
        answer = await client.request(method, path)
        problem(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == allowed
