"""Encrypted requests: those that are opened, and the many that are not, which all look the same."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

from detectsched.api.encrypted import STEP_SECONDS
from tests.api.rig import MAC, Rig, png, problem
from tests.support.sender import b64, compact, encrypted, header_of, with_header

DOCUMENT = {"mac": MAC, "text": "some words"}
JOSE = {"Content-Type": "application/jose"}


async def make_key(client: httpx.AsyncClient, algorithm: str = "ECDH-ES+A256KW") -> dict[str, Any]:
    """Make a key of the client's tenant."""
    answer = await client.post("/api/encryption-keys", json={"algorithm": algorithm})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def send(client: httpx.AsyncClient, body: str, path: str = "/api/ocr/text", **headers: str) -> httpx.Response:
    """Send an encrypted request."""
    return await client.post(path, content=body, headers=JOSE | headers)


@pytest.mark.parametrize("algorithm", ["ECDH-ES+A256KW", "RSA-OAEP-256"])
async def test_an_encrypted_request_is_taken_as_the_plain_one(
    rig: Rig, client: httpx.AsyncClient, algorithm: str
) -> None:
    """Texts and images, under either kind of key; what is wrong inside is told as of a plain request."""
    key = await make_key(client, algorithm)
    answer = await send(client, encrypted(key, DOCUMENT))
    assert answer.status_code == 202, answer.text
    image = {"object": "door", "image": base64.b64encode(png()).decode(), "file_name": "a.png"}
    answer = await send(client, encrypted(key, image), "/api/ocr/image")
    assert answer.status_code == 202, answer.text
    text, picture = await rig.rows()
    assert (text["text"], text["mac"]) == ("some words", "aa:bb:cc:dd:ee:01")
    assert await rig.blobs.get(picture["blob"]) == png()
    problem(await send(client, encrypted(key, {"mac": MAC})), 422, "invalid_request", field="text")
    problem(await send(client, encrypted(key, b"eyJ.a.b.c.d")), 400, "malformed")


async def test_a_large_image_fits(rig: Rig, client: httpx.AsyncClient) -> None:
    """Whatever is taken plain is taken encrypted: the limit of the body grows with base64url."""
    key = await make_key(client)
    most = rig.settings.api.max_text_bytes
    for path, of in (("/api/ocr/text", {"mac": MAC}), ("/text/handler", {"object": "door"})):
        answer = await send(client, encrypted(key, of | {"text": "x" * most}), path)
        assert answer.status_code == 202, answer.text
    too_much = encrypted(key, {"mac": MAC, "text": "x" * (most * 6 + 70_000)})
    problem(await send(client, too_much), 413, "too_large")
    assert len(await rig.rows()) == 2


async def test_the_jti_is_the_idempotency_key(rig: Rig, client: httpx.AsyncClient) -> None:
    """A copy, and the same request encrypted anew, yield the same task; other content under the jti is refused."""
    key = await make_key(client)
    body = encrypted(key, DOCUMENT, jti="message-1")
    answers = await asyncio.gather(*(send(client, body) for _ in range(10)))
    answers += [
        await send(client, encrypted(key, DOCUMENT, jti="message-1")),
        await send(client, body, **{"Idempotency-Key": "message-1"}),
        await client.post("/api/ocr/text", json=DOCUMENT, headers={"Idempotency-Key": "message-1"}),
    ]
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["task_id"] for answer in answers}) == 1
    assert len(await rig.rows()) == 1
    other = encrypted(key, DOCUMENT | {"text": "other"}, jti="message-1")
    problem(await send(client, other), 409, "idempotency_mismatch")
    answer = await send(client, body, **{"Idempotency-Key": "another"})
    problem(answer, 422, "invalid_request", field="Idempotency-Key")


def bad_headers(key: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield a name, the reason and a request for every header that is refused."""
    now = int(time.time())
    good = encrypted(key, DOCUMENT)
    headers: dict[str, dict[str, Any]] = {
        "alg none": {"alg": "none", "epk": None},
        "alg dir": {"alg": "dir", "epk": None},
        "alg RSA1_5": {"alg": "RSA1_5", "epk": None},
        "alg RSA-OAEP": {"alg": "RSA-OAEP", "epk": None},
        "alg ECDH-ES": {"alg": "ECDH-ES"},
        "alg missing": {"alg": None},
        "alg not text": {"alg": ["ECDH-ES+A256KW"]},
        "enc CBC": {"enc": "A256CBC-HS512"},
        "enc A128GCM": {"enc": "A128GCM"},
        "p2c flood": {"alg": "PBES2-HS512+A256KW", "p2c": 2_000_000_000, "p2s": "AAAA", "epk": None},
        "p2c beside": {"p2c": 2_000_000_000},
        "zip": {"zip": "DEF"},
        "crit": {"crit": ["exp"]},
        "jku": {"jku": "https://127.0.0.1/keys"},
        "jwk": {"jwk": key["public_key"]},
        "x5u": {"x5u": "https://127.0.0.1/certificate"},
        "x5c": {"x5c": ["AAAA"]},
        "b64": {"b64": False},
        "nested": {"cty": "JWT"},
        "unknown": {"who": "me"},
        "kid missing": {"kid": None},
        "kid a number": {"kid": 7},
        "aud missing": {"aud": None},
        "aud a list": {"aud": ["acme"]},
        "jti missing": {"jti": None},
        "jti empty": {"jti": ""},
        "jti too long": {"jti": "j" * 201},
        "jti a space": {"jti": "a b"},
        "iat missing": {"iat": None},
        "exp missing": {"exp": None},
        "exp text": {"exp": str(now + 60)},
        "epk missing": {"epk": None},
        "epk other curve": {"epk": {"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"}},
        "epk private": {"epk": ECKey.generate_key("P-256").as_dict(private=True)},
        "epk symmetric": {"epk": {"kty": "oct", "k": "AAAA"}},
    }
    for name, changes in headers.items():
        yield name, "header", with_header(good, **changes)
    yield "other tenant", "audience", encrypted(key, DOCUMENT, aud="other")
    yield "longer name", "audience", encrypted(key, DOCUMENT, aud="acme2")
    times: dict[str, dict[str, Any]] = {
        "expired": {"iat": now - 600, "exp": now - 70},
        "not yet": {"iat": now + 120, "exp": now + 180},
        "too long": {"iat": now, "exp": now + 4000},
        "backwards": {"iat": now + 30, "exp": now},
        "endless": {"iat": 0, "exp": 1e300},
    }
    for name, changes in times.items():
        yield name, "time", encrypted(key, DOCUMENT, **changes)


def bad_shapes(key: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what is not five parts of base64url with a JSON header."""
    good = encrypted(key, DOCUMENT)
    parts = good.split(".")
    shapes = {
        "empty": "",
        "dots": "....",
        "JSON": json.dumps(DOCUMENT),
        "four parts": ".".join(parts[:4]),
        "six parts": good + ".AAAA",
        "a million dots": "." * 1_000_000,
        "huge header": ".".join([b64(json.dumps({"alg": "x" * 100_000}).encode()), *parts[1:]]),
        "header not JSON": ".".join([b64(b"alg=none"), *parts[1:]]),
        "header not UTF-8": ".".join([b64(b'{"alg":"\xff"}'), *parts[1:]]),
        "header padded": ".".join([parts[0] + "=", *parts[1:]]),
        "header a line break": ".".join([parts[0] + "\n", *parts[1:]]),
    }
    for name, body in shapes.items():
        yield name, "malformed", body
    yield "deep header", "header", ".".join([b64(b"[" * 1500), *parts[1:]])


def bad_contents(key: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what was changed on the way, in each part, or was never made for this key."""
    good = encrypted(key, DOCUMENT)
    parts = good.split(".")
    for place, name in enumerate(("header", "key", "nonce", "content", "tag")):
        for flip in (0, len(parts[place]) // 2):
            changed = list(parts[place])
            changed[flip] = "A" if changed[flip] != "A" else "B"
            if place:
                yield (
                    f"{name} changed at {flip}",
                    "decryption",
                    ".".join([*parts[:place], "".join(changed), *parts[place + 1 :]]),
                )
        if place:
            yield f"{name} cut", "decryption", ".".join([*parts[:place], parts[place][:-4], *parts[place + 1 :]])
            yield f"{name} empty", "decryption", ".".join([*parts[:place], "", *parts[place + 1 :]])
            yield (
                f"{name} not base64",
                "decryption",
                ".".join([*parts[:place], "+" + parts[place][1:], *parts[place + 1 :]]),
            )
    yield "another jti", "decryption", with_header(good, jti="another")
    yield "another exp", "decryption", with_header(good, exp=int(time.time()) + 301)
    yield "another key pair", "decryption", compact(header_of(key), ECKey.generate_key("P-256"), DOCUMENT)
    yield (
        "epk off the curve",
        "decryption",
        with_header(good, epk={"kty": "EC", "crv": "P-256", "x": b64(b"\1" * 32), "y": b64(b"\2" * 32)}),
    )
    yield "epk no number", "decryption", with_header(good, epk={"kty": "EC", "crv": "P-256", "x": "", "y": "$"})


def unwanted_algorithms(key: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield requests that are whole and right in themselves, by algorithms that are not taken."""
    secret = OctKey.generate_key(256)
    yield "real dir", "header", compact(header_of(key, alg="dir"), secret, DOCUMENT)
    yield "real A256KW", "header", compact(header_of(key, alg="A256KW"), secret, DOCUMENT)
    bomb = compact(header_of(key, zip="DEF"), key["public_key"], b" " * 50_000_000)
    assert len(bomb) < 100_000
    yield "zip bomb", "header", bomb


async def failures(rig: Rig, client: httpx.AsyncClient) -> dict[str, float]:
    """Return how many encrypted requests were refused, by the reason that operators see."""
    found: dict[str, float] = {}
    for line in (await client.get("/metrics")).text.splitlines():
        if line.startswith("detectsched_encrypted_requests_total{"):
            name, value = line.rsplit(" ", 1)
            found[name.split('"')[1]] = float(value)
    return found


@pytest.mark.parametrize("kind", [bad_headers, bad_shapes, bad_contents, unwanted_algorithms])
async def test_whatever_cannot_be_opened_gets_one_same_answer(rig: Rig, client: httpx.AsyncClient, kind: Any) -> None:
    """Same status, same body, told at a multiple of the same time; the reason is counted, and told to nobody."""
    key = await make_key(client)
    [expected] = {(await send(client, "nonsense")).text}
    for name, reason, body in kind(key):
        before = (await failures(rig, client)).get(reason, 0)
        began = time.monotonic()
        answer = await send(client, body)
        assert time.monotonic() - began >= STEP_SECONDS, name
        problem(answer, 400, "decryption_failed")
        assert answer.text == expected, name
        assert (await failures(rig, client))[reason] == before + 1, name
    assert await rig.rows() == []


async def test_keys_belong_to_their_tenant(rig: Rig, client: httpx.AsyncClient) -> None:
    """Another tenant's key opens nothing for acme, its kid is as unknown as one that nobody has."""
    mine = await make_key(client)
    async with rig.client("other") as stranger:
        theirs = await make_key(stranger)
        assert (await send(stranger, encrypted(theirs, DOCUMENT))).status_code == 202
        refused = [await send(stranger, encrypted(mine, DOCUMENT))]
        refused.append(await send(stranger, encrypted(mine, DOCUMENT, aud="other")))
    refused += [
        await send(client, encrypted(theirs, DOCUMENT)),
        await send(client, encrypted(theirs, DOCUMENT, aud="acme")),
        await send(client, encrypted(mine, DOCUMENT, kid=str(uuid.uuid4()))),
        await send(client, compact(header_of(mine, kid=theirs["kid"]), mine["public_key"], DOCUMENT)),
    ]
    assert len({answer.text for answer in refused}) == 1
    problem(refused[0], 400, "decryption_failed")
    assert await failures(rig, client) == {"audience": 2.0, "key": 4.0, "opened": 1.0}
    assert [row["tenant"] for row in await rig.rows()] == ["other"]


async def test_a_key_is_for_its_algorithm(rig: Rig, client: httpx.AsyncClient) -> None:
    """The algorithm is what the key was made for, not what a header says."""
    curve, rsa = await make_key(client), await make_key(client, "RSA-OAEP-256")
    confused = [
        compact(header_of(curve, kid=rsa["kid"]), curve["public_key"], DOCUMENT),
        compact(header_of(rsa, kid=curve["kid"]), rsa["public_key"], DOCUMENT),
        compact(header_of(rsa), RSAKey.generate_key(2048), DOCUMENT),
    ]
    for body in confused:
        problem(await send(client, body), 400, "decryption_failed")
    assert await failures(rig, client) == {"key": 2.0, "decryption": 1.0}


async def test_keys_are_rotated(rig: Rig, client: httpx.AsyncClient) -> None:
    """Senders are given the newest; older ones open until they are retired, which nothing undoes."""
    problem(await client.get("/api/encryption-keys/current"), 404, "not_found")
    old = await make_key(client)
    assert (await client.get("/api/encryption-keys/current")).json() == old
    new = await make_key(client)
    async with rig.client("submit") as sender:
        assert (await sender.get("/api/encryption-keys/current")).json() == new
        problem(await sender.post("/api/encryption-keys"), 403, "forbidden")
        problem(await sender.get("/api/encryption-keys"), 403, "forbidden")
    assert (await send(client, encrypted(old, DOCUMENT))).status_code == 202
    assert (await send(client, encrypted(new, DOCUMENT))).status_code == 202
    retired = (await client.post(f"/api/encryption-keys/{old['kid']}/retire")).json()
    assert retired["retired_at"] is not None
    assert (await client.post(f"/api/encryption-keys/{old['kid']}/retire")).json() == retired
    problem(await send(client, encrypted(old, DOCUMENT)), 400, "decryption_failed")
    assert (await send(client, encrypted(new, DOCUMENT))).status_code == 202
    assert (await client.get("/api/encryption-keys")).json() == {"items": [new, retired]}
    async with rig.client("other") as stranger:
        problem(await stranger.post(f"/api/encryption-keys/{new['kid']}/retire"), 404, "not_found")
        assert (await stranger.get("/api/encryption-keys")).json() == {"items": []}
    assert [(action, subject) for action, subject, _ in await rig.audited()] == [
        ("create_encryption_key", old["kid"]),
        ("create_encryption_key", new["kid"]),
        ("retire_encryption_key", old["kid"]),
    ]


async def test_only_public_parts_are_shown_or_readable(rig: Rig, client: httpx.AsyncClient) -> None:
    """No private number is in an answer, and none in the database but under a master key."""
    for algorithm in ("ECDH-ES+A256KW", "RSA-OAEP-256"):
        assert not {"d", "p", "q", "dp", "dq", "qi", "k"} & set((await make_key(client, algorithm))["public_key"])
    async with rig.ledger.connection() as connection:
        rows = await connection.fetch("SELECT sealed FROM encryption_key")
    assert len(rows) == 2
    assert not [row for row in rows if b"kty" in row["sealed"]]


async def test_keys_are_bounded(rig: Rig, client: httpx.AsyncClient) -> None:
    """A tenant has at most twenty that are not retired."""
    made = [await make_key(client) for _ in range(20)]
    problem(await client.post("/api/encryption-keys"), 409, "conflict")
    await client.post(f"/api/encryption-keys/{made[3]['kid']}/retire")
    assert (await client.post("/api/encryption-keys")).status_code == 201


async def test_other_routes_take_no_encrypted_body(client: httpx.AsyncClient) -> None:
    """What is no submission is not encrypted."""
    answer = await client.put("/api/word-lists/one", content="a.b.c.d.e", headers=JOSE)
    problem(answer, 415, "unsupported_media")
