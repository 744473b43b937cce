"""Drafts of word lists: changing, comparing, publishing, going back."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from detectsched.db.word_lists import load
from detectsched.detection import ListVersion
from detectsched.wordlist import ListOptions, Mode, Word
from tests.api.rig import Rig, problem
from tests.api.test_word_lists import words

MINE = "/api/word-lists/mine"
DRAFT = f"{MINE}/draft"


async def good(answer: httpx.Response) -> Any:
    """Return the document of a good answer."""
    assert answer.status_code == 200, answer.text
    return answer.json()


def texts(content: dict[str, Any]) -> list[str]:
    """Return the words that a document shows."""
    return [word["text"] for word in content["words"]]


async def test_a_draft_becomes_the_first_version(rig: Rig, client: httpx.AsyncClient) -> None:
    """Until it is published nothing is judged by it, and nobody can name the list."""
    begun = await good(await client.put(DRAFT, json=words("a", "b", "a", revision=0)))
    assert begun.pop("updated_at")
    assert begun == {
        "id": "mine",
        "name": "My words",
        "is_default": True,
        "base_version": 0,
        "revision": 1,
        "word_count": 2,
        "updated_by": begun["updated_by"],
    }
    [listed] = (await client.get("/api/word-lists")).json()["items"]
    assert (listed["version"], listed["has_draft"], listed["published_at"]) == (0, True, None)
    assert texts(await good(await client.get(MINE))) == []
    task = {"mac": "AA:BB:CC:DD:EE:01", "text": "a", "word_lists": ["mine"]}
    problem(await client.post("/api/ocr/text", json=task), 422, "invalid_request", field="word_lists")
    del task["word_lists"]
    assert (await client.post("/api/ocr/text", json=task)).status_code == 202
    [started] = await rig.begin()
    assert started.lists == ()
    published = await client.post(f"{MINE}/publish")
    assert ((await good(published))["version"], published.headers["etag"]) == (1, '"1"')
    assert texts(await good(await client.get(MINE))) == ["a", "b"]
    problem(await client.get(DRAFT), 404, "not_found")
    problem(await client.post(f"{MINE}/publish"), 404, "not_found")


async def test_a_draft_begins_as_the_current_version_and_is_changed(rig: Rig, client: httpx.AsyncClient) -> None:
    """Words come, go and are replaced; what is not given stays, options and order included."""
    options = {"mode": "substring", "rules": [{"kind": "ip"}]}
    body = words("a", "b", "c", name="Old", options=options)
    body["words"][0] |= {"level": 3, "tags": ["t"], "replacement": "x"}
    await client.put(MINE, json=body)
    change = {"remove": [{"text": "b"}, {"text": "gone"}], "add": [{"text": "d"}, {"text": "c", "level": 2}]}
    changed = await good(await client.patch(DRAFT, json=change))
    assert (changed["base_version"], changed["revision"], changed["word_count"]) == (1, 1, 3)
    again = await good(await client.patch(DRAFT, json={"name": "New", "add": [{"text": "a", "allow": True}]}))
    assert (again["name"], again["revision"], again["word_count"]) == ("New", 2, 4)
    assert texts(await good(await client.get(MINE))) == ["a", "b", "c"]
    shown = await good(await client.get(DRAFT))
    assert (texts(shown), shown["options"]["mode"]) == (["a", "d", "c", "a"], "substring")
    await good(await client.post(f"{MINE}/publish", json={"expected_version": 1, "revision": 2}))
    content = await load(rig.ledger, "acme", ListVersion("mine", 2))
    assert content.words == (
        Word("a", level=3, tags=("t",), replacement="x"),
        Word("d"),
        Word("c", level=2),
        Word("a", allow=True),
    )
    assert (content.options.mode, len(content.options.rules)) == (Mode.SUBSTRING, 1)
    actions = [action for action, _, _ in await rig.audited()]
    assert actions == ["publish_word_list", "edit_word_list_draft", "edit_word_list_draft", "publish_word_list"]


async def test_shadow_mode_can_be_changed_alone(rig: Rig, client: httpx.AsyncClient) -> None:
    """The other options stay; the list says in which mode it is."""
    await client.put(MINE, json=words("a", options={"mode": "substring"}))
    for shadow in (True, False):
        await good(await client.patch(DRAFT, json={"shadow": shadow}))
        diff = await good(await client.get(f"{MINE}/diff"))
        assert (diff["old_options"]["shadow"], diff["new_options"]["shadow"]) == (not shadow, shadow)
        published = await good(await client.post(f"{MINE}/publish"))
        assert published["shadow"] is shadow
    content = await load(rig.ledger, "acme", ListVersion("mine", 2))
    assert content.options == ListOptions(mode=Mode.SUBSTRING, shadow=True)
    versions = await good(await client.get(f"{MINE}/versions"))
    assert [item["shadow"] for item in versions["items"]] == [False, True, False]


async def test_nobody_overwrites_what_he_has_not_seen(client: httpx.AsyncClient) -> None:
    """A revision that was named must be the draft's; a version that was passed meanwhile is told."""
    await client.put(MINE, json=words("a"))
    await client.patch(DRAFT, json={"add": [{"text": "b"}], "revision": 0} | {"revision": None})
    for answer in (
        await client.patch(DRAFT, json={"add": [{"text": "c"}], "revision": 0}),
        await client.put(DRAFT, json=words("c", revision=2)),
        await client.post(f"{MINE}/publish", json={"revision": 2}),
    ):
        problem(answer, 409, "conflict", field="revision")
    await client.put(MINE, json=words("x"))
    moved = problem(await client.post(f"{MINE}/publish"), 409, "conflict", field="expected_version")
    assert "current version of 'mine' is 2, not 1" in moved["detail"]
    assert texts(await good(await client.get(DRAFT))) == ["a", "b"]
    assert (await good(await client.post(f"{MINE}/publish", json={"expected_version": 2})))["version"] == 3


async def test_of_publications_at_once_one_is_made(client: httpx.AsyncClient) -> None:
    """A draft is published once, however many say so; of drafts and lists that race none is lost."""
    await client.put(DRAFT, json=words("a"))
    answers = await asyncio.gather(*(client.post(f"{MINE}/publish") for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [200, 404, 404, 404, 404, 404]
    edits = (client.patch(DRAFT, json={"add": [{"text": f"w{number}"}]}) for number in range(6))
    assert {answer.status_code for answer in await asyncio.gather(*edits)} == {200}
    racing = [client.post(f"{MINE}/publish"), *(client.put(MINE, json=words("x", expected_version=1)) for _ in "ab")]
    outcomes = [answer.status_code for answer in await asyncio.gather(*racing)]
    assert sorted(outcomes) == [200, 409, 409]
    shown = await good(await client.get(MINE))
    assert (shown["version"], shown["word_count"]) == (2, 7 if outcomes[0] == 200 else 1)


async def test_drafts_that_are_begun_and_dropped_at_once(client: httpx.AsyncClient) -> None:
    """Whoever comes first: an edit is done, a draft is dropped or was not there; nothing else."""
    edits = [client.patch(DRAFT, json={"add": [{"text": "a"}]}) for _ in range(8)]
    drops = [client.delete(path) for path in (DRAFT, MINE) for _ in range(4)]
    answers = await asyncio.gather(*(call for pair in zip(edits, drops, strict=True) for call in pair))
    statuses = [answer.status_code for answer in answers]
    assert set(statuses[::2]) == {200}
    assert set(statuses[1::2]) <= {204, 404}


async def test_a_draft_can_be_dropped(rig: Rig, client: httpx.AsyncClient) -> None:
    """The list stays; one that was never published goes with it. Other tenants neither see nor touch any of it."""
    async with rig.client("other") as stranger:
        await client.put(DRAFT, json=words("a"))
        problem(await stranger.get(DRAFT), 404, "not_found")
        problem(await stranger.delete(DRAFT), 404, "not_found")
        problem(await stranger.post(f"{MINE}/publish"), 404, "not_found")
    assert (await client.delete(DRAFT)).status_code == 204
    assert (await client.get("/api/word-lists")).json() == {"items": []}
    problem(await client.delete(DRAFT), 404, "not_found")
    await client.put(MINE, json=words("a"))
    await client.patch(DRAFT, json={"remove": [{"text": "a"}]})
    assert (await client.delete(DRAFT)).status_code == 204
    assert texts(await good(await client.get(MINE))) == ["a"]
    async with rig.client("read") as reader:
        problem(await reader.put(DRAFT, json=words("a")), 403, "forbidden")


async def test_wrong_changes_change_nothing(client: httpx.AsyncClient) -> None:
    """Each is told by its place."""
    for body, field in (
        ({}, ""),
        ({"revision": 0}, ""),
        ({"add": [{"text": "a"}, {"text": "\u200b"}]}, "add.1.text"),
        ({"add": [{"text": "a", "level": 101}]}, "add.0.level"),
        ({"remove": ["a"]}, "remove.0"),
        ({"options": {"rules": [{"kind": "regex", "pattern": "("}]}}, "options.rules.0.pattern"),
        ({"words": []}, "words"),
        ({"add": [{"text": "a"}] * 5001}, "add"),
    ):
        problem(await client.patch(DRAFT, json=body), 422, "invalid_request", field=field)
    problem(await client.patch("/api/word-lists/A/draft", json={"name": "x"}), 422, "invalid_request", field="list_id")
    assert (await client.get("/api/word-lists")).json() == {"items": []}


async def test_a_draft_holds_no_more_words_than_a_list(rig: Rig, client: httpx.AsyncClient) -> None:
    """A change that would make it longer is refused whole."""
    await client.put(DRAFT, json=words(*(f"word {number}" for number in range(100_000))))
    refused = problem(await client.patch(DRAFT, json={"add": [{"text": "more"}]}), 422, "invalid_request", field="add")
    assert "100001 words" in refused["detail"]
    swapped = {"remove": [{"text": "word 7"}], "add": [{"text": "more"}]}
    assert (await good(await client.patch(DRAFT, json=swapped)))["word_count"] == 100_000
    assert (await good(await client.post(f"{MINE}/publish")))["word_count"] == 100_000
    assert len((await load(rig.ledger, "acme", ListVersion("mine", 1))).words) == 100_000


async def test_what_differs(client: httpx.AsyncClient) -> None:
    """Between current and draft unless said otherwise; page by page; options where they differ."""
    await client.put(MINE, json=words("a", "b", "c"))
    body = words("b", "c", "d", "e", options={"mode": "substring"})
    body["words"][0]["level"] = 5
    body["words"][3]["allow"] = True
    await client.put(DRAFT, json=body)
    whole = await good(await client.get(f"{MINE}/diff"))
    assert (whole["old"], whole["new"], whole["added"], whole["removed"], whole["changed"]) == ("1", "draft", 2, 1, 1)
    assert (whole["old_options"]["mode"], whole["new_options"]["mode"]) == ("word", "substring")
    sides = [
        tuple(side and (side["text"], side["level"]) for side in (item["before"], item["after"]))
        for item in whole["items"]
    ]
    assert sides == [(("a", 1), None), (("b", 1), ("b", 5)), (None, ("d", 1)), (None, ("e", 1))]
    pages = []
    params: dict[str, str] | None = {"limit": "3"}
    while params is not None:
        page = await good(await client.get(f"{MINE}/diff", params=params))
        pages += page["items"]
        params = page["next_cursor"] and {"limit": "3", "cursor": page["next_cursor"]}
    assert pages == whole["items"]
    await client.post(f"{MINE}/publish")
    back = await good(await client.get(f"{MINE}/diff", params={"old": "current", "new": "1"}))
    assert (back["old"], back["new"], back["added"], back["removed"], back["changed"]) == ("2", "1", 1, 2, 1)
    same = await good(await client.get(f"{MINE}/diff", params={"old": "2", "new": "current"}))
    assert (same["items"], same["old_options"], same["added"]) == ([], None, 0)
    problem(await client.get(f"{MINE}/diff"), 404, "not_found")
    problem(await client.get(f"{MINE}/diff", params={"old": "3", "new": "1"}), 404, "not_found")
    problem(await client.get(f"{MINE}/diff", params={"new": "x"}), 422, "invalid_request", field="new")
    wrong = {"new": "1", "cursor": "W10="}
    problem(await client.get(f"{MINE}/diff", params=wrong), 422, "invalid_request", field="cursor")


async def test_going_back_is_a_new_version(rig: Rig, client: httpx.AsyncClient) -> None:
    """With the words and options of the old one; name and scope stay; the draft stays."""
    await client.put(MINE, json=words("a", "b", name="One", options={"mode": "substring"}))
    await client.put(MINE, json=words("c", name="Two", is_default=False))
    await client.patch(DRAFT, json={"add": [{"text": "d"}]})
    problem(await client.post(f"{MINE}/rollback", json={"version": 1, "expected_version": 1}), 409, "conflict")
    problem(await client.post(f"{MINE}/rollback", json={"version": 3}), 404, "not_found")
    problem(await client.post("/api/word-lists/other/rollback", json={"version": 1}), 404, "not_found")
    back = await good(await client.post(f"{MINE}/rollback", json={"version": 1, "expected_version": 2}))
    assert (back["version"], back["word_count"], back["name"], back["is_default"]) == (3, 2, "Two", False)
    content = await load(rig.ledger, "acme", ListVersion("mine", 3))
    assert (content.words, content.options) == ((Word("a"), Word("b")), ListOptions(mode=Mode.SUBSTRING))
    versions = await good(await client.get(f"{MINE}/versions"))
    assert [(item["version"], item["restores"]) for item in versions["items"]] == [(3, 1), (2, None), (1, None)]
    page = await good(await client.get(f"{MINE}/versions", params={"limit": 2}))
    rest = await good(await client.get(f"{MINE}/versions", params={"limit": 2, "cursor": page["next_cursor"]}))
    assert ([item["version"] for item in rest["items"]], rest["next_cursor"]) == ([1], None)
    assert texts(await good(await client.get(f"{MINE}/versions/2"))) == ["c"]
    assert texts(await good(await client.get(DRAFT))) == ["c", "d"]
    problem(await client.get(f"{MINE}/versions/4"), 404, "not_found")
    problem(await client.get("/api/word-lists/none/versions"), 404, "not_found")
    async with rig.client("other") as stranger:
        problem(await stranger.get(f"{MINE}/versions/1"), 404, "not_found")
        problem(await stranger.post(f"{MINE}/rollback", json={"version": 1}), 404, "not_found")
    assert ("roll_back_word_list", 1) in [(action, detail.get("restores")) for action, _, detail in await rig.audited()]
