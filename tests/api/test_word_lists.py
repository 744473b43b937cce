"""Publishing and reading word lists."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from detectsched.api.lists import WordListDetail
from detectsched.db.word_lists import load
from detectsched.detection import ListVersion
from detectsched.wordlist import AllowRule, ListOptions, Mode, Noise, Repeats, Rule, RuleKind, Word
from tests.api.rig import MAC, Rig, problem


def words(*texts: str, **fields: Any) -> dict[str, Any]:
    """Return a list of words to be published."""
    return {"name": "My words", "words": [{"text": text} for text in texts]} | fields


async def test_each_publication_is_a_new_version(rig: Rig, client: httpx.AsyncClient) -> None:
    """The old one stays as it was; the new one is current, and is shown."""
    first = await client.put("/api/word-lists/mine", json=words("a", "b"))
    assert first.status_code == 200, first.text
    body = words("c", is_default=False, name="Renamed")
    body["words"][0] |= {"category": "drugs", "level": 3}
    second = await client.put("/api/word-lists/mine", json=body)
    assert (first.headers["etag"], second.headers["etag"]) == ('"1"', '"2"')
    shown = second.json()
    assert shown.pop("published_at")
    assert shown == {
        "id": "mine",
        "name": "Renamed",
        "is_default": False,
        "version": 2,
        "word_count": 1,
        "shadow": False,
        "has_draft": False,
    }
    whole = (await client.get("/api/word-lists/mine")).json()
    plain: dict[str, Any] = {"mode": None, "allow": False, "tags": [], "replacement": None}
    assert whole["words"] == [{"text": "c", "category": "drugs", "level": 3, **plain}]
    assert [item["version"] for item in (await client.get("/api/word-lists")).json()["items"]] == [2]
    assert (await load(rig.ledger, "acme", ListVersion("mine", 1))).words == (Word("a"), Word("b"))


async def test_a_word_counts_once_in_its_first_place(rig: Rig, client: httpx.AsyncClient) -> None:
    """Duplicates are left out; what the first says of the word holds."""
    body = words("b", "a", "b", "c", "a")
    body["words"][0]["level"] = 2
    answer = await client.put("/api/word-lists/mine", json=body)
    assert answer.json()["word_count"] == 3
    content = await load(rig.ledger, "acme", ListVersion("mine", 1))
    assert content.words == (Word("b", level=2), Word("a"), Word("c"))


async def test_a_hundred_thousand_words_are_a_list(rig: Rig, client: httpx.AsyncClient) -> None:
    """That many fit, one more does not."""
    body = words(*(f"word {number}" for number in range(100_000)))
    assert (await client.put("/api/word-lists/mine", json=body)).json()["word_count"] == 100_000
    body["words"].append({"text": "one more"})
    problem(await client.put("/api/word-lists/mine", json=body), 422, "invalid_request", field="words")


async def test_a_wrong_list_is_refused_whole(rig: Rig, client: httpx.AsyncClient, subtests: pytest.Subtests) -> None:
    """The answer names each word that is wrong, and nothing is published."""
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("mine", words("a", "", "b"), "words.1.text"),
        ("mine", words("a", " \u200b", "b", "\u3000"), "words.3.text"),
        ("mine", words("a\0"), "words.0.text"),
        ("mine", words("x" * 201), "words.0.text"),
        ("mine", {"words": []}, "name"),
        ("mine", words(name="a\nb"), "name"),
        ("mine", {"name": "n", "words": [{"text": "a", "level": 0}]}, "words.0.level"),
        ("mine", {"name": "n", "words": [{"text": "a", "level": "1"}]}, "words.0.level"),
        ("mine", {"name": "n", "words": [{"text": "a", "category": "\t"}]}, "words.0.category"),
        ("mine", {"name": "n", "words": ["a"]}, "words.0"),
        ("mine", words("a", is_default="yes"), "is_default"),
        ("mine", words("a", default=True), "default"),
        ("mine", {"name": "n", "words": {}}, "words"),
        ("mine", {"name": "n", "words": [{"text": "a", "category": "a\n"}]}, "words.0.category"),
        ("mine", {"name": "n", "words": [{"text": "a", "lable": "a"}]}, "words.0.lable"),
        ("mine", {"name": "n", "words": [{"text": "a", "tags": ["x"] * 21}]}, "words.0.tags"),
        ("mine", {"name": "n", "words": [{"text": "a", "replacement": "\0"}]}, "words.0.replacement"),
        ("mine", {"name": "n", "words": [{"text": "a", "mode": "part"}]}, "words.0.mode"),
        ("mine", {"name": "n", "words": [{"text": "a", "tags": ["\n"]}]}, "words.0.tags.0"),
        ("mine", {"name": "n", "words": [*words(*map(str, range(4999)))["words"], {"text": ""}]}, "words.4999.text"),
        ("mine", words("a", options={"noise": ["spaces", "dust"]}), "options.noise.1"),
        ("mine", words("a", options={"max_gap": 17}), "options.max_gap"),
        ("mine", words("a", options={"gap": 1}), "options.gap"),
        ("mine", words("a", options={"rules": [{"kind": "iban"}]}), "options.rules.0.kind"),
        ("mine", words("a", options={"rules": [{"kind": "regex"}]}), "options.rules.0.pattern"),
        (
            "mine",
            words("a", options={"rules": [{"kind": "ip"}, {"kind": "regex", "pattern": "("}]}),
            "options.rules.1.pattern",
        ),
        ("mine", words("a", options={"rules": [{"kind": "digits", "min_digits": 3}]}), "options.rules.0.min_digits"),
        ("Mine", words("a"), "list_id"),
        ("a.b", words("a"), "list_id"),
    ]
    for list_id, body, field in wrong:
        with subtests.test(field=field, body=str(body)[:80]):
            answer = await client.put(f"/api/word-lists/{list_id}", json=body)
            problem(answer, 422, "invalid_request", field=field)
    assert (await client.get("/api/word-lists")).json() == {"items": []}
    problem(await client.get("/api/word-lists/mine"), 404, "not_found")


async def test_a_version_may_be_expected(client: httpx.AsyncClient) -> None:
    """Whoever says which version he replaces replaces no other; of several at once one gets through."""
    problem(await client.put("/api/word-lists/mine", json=words("a", expected_version=1)), 409, "conflict")
    assert (await client.get("/api/word-lists")).json() == {"items": []}
    answers = await asyncio.gather(
        *(client.put("/api/word-lists/mine", json=words(f"w{number}", expected_version=0)) for number in range(5))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409, 409]
    refused = next(answer for answer in answers if answer.status_code == 409)
    problem(refused, 409, "conflict", field="expected_version")
    assert (await client.put("/api/word-lists/mine", json=words("b", expected_version=1))).json()["version"] == 2


async def test_a_deleted_list_judges_nothing_new(rig: Rig, client: httpx.AsyncClient) -> None:
    """Tasks that name it are judged by its last version; nobody can name it any more; a new one goes on counting."""
    await client.put("/api/word-lists/mine", json=words("a"))
    task = {"mac": MAC, "text": "a b", "word_lists": ["mine"]}
    assert (await client.post("/api/ocr/text", json=task)).status_code == 202
    patch = {"word_lists": ["mine"]}
    assert (await client.patch("/api/objects/door", json=patch)).status_code == 200
    refused = problem(await client.delete("/api/word-lists/mine"), 409, "conflict")
    assert "'door'" in refused["detail"]
    await client.patch("/api/objects/door", json={"word_lists": None})
    async with rig.client("other") as stranger:
        problem(await stranger.delete("/api/word-lists/mine"), 404, "not_found")
    assert (await client.delete("/api/word-lists/mine")).status_code == 204
    problem(await client.delete("/api/word-lists/mine"), 404, "not_found")
    assert (await client.get("/api/word-lists")).json() == {"items": []}
    problem(await client.get("/api/word-lists/mine"), 404, "not_found")
    problem(await client.post("/api/ocr/text", json=task), 422, "invalid_request", field="word_lists")
    assert (await client.post("/api/ocr/text", json={"mac": MAC, "text": "a b"})).status_code == 202
    [first] = await rig.begin()
    [second] = await rig.begin()
    assert (first.lists, second.lists) == ((ListVersion("mine", 1),), ())
    assert (await client.get("/api/word-lists/mine/versions/1")).json()["words"][0]["text"] == "a"
    again = await client.put("/api/word-lists/mine", json=words("c", expected_version=0))
    assert again.json()["version"] == 2
    actions = [(action, detail.get("version")) for action, subject, detail in await rig.audited() if subject == "mine"]
    assert actions == [("publish_word_list", 1), ("delete_word_list", 1), ("publish_word_list", 2)]


async def test_how_a_list_is_matched_belongs_to_its_version(rig: Rig, client: httpx.AsyncClient) -> None:
    """Options, rules and what a word says of itself come back as they were sent; what was left out, as it is then."""
    options = {
        "mode": "substring",
        "repeats": "any",
        "noise": ["digits"],
        "max_gap": 2,
        "across_lines": True,
        "homoglyphs": False,
        "numerals": True,
        "confusions": True,
        "pinyin": True,
        "split": True,
        "allow": "overlap",
        "rules": [{"kind": "regex", "name": "pay", "pattern": "支付.", "level": 2, "tags": ["t"]}, {"kind": "mobile"}],
    }
    word = {"text": "a", "mode": "word", "allow": True, "tags": ["x", "y"], "replacement": ""}
    body = {"name": "Mine", "options": options, "words": [word, {"text": "a"}]}
    assert (await client.put("/api/word-lists/mine", json=body)).status_code == 200
    content = await load(rig.ledger, "acme", ListVersion("mine", 1))
    assert content.words == (Word("a", mode=Mode.WORD, allow=True, tags=("x", "y"), replacement=""), Word("a"))
    assert content.options == ListOptions(
        mode=Mode.SUBSTRING,
        repeats=Repeats.ANY,
        noise=(Noise.DIGITS,),
        max_gap=2,
        across_lines=True,
        homoglyphs=False,
        numerals=True,
        confusions=True,
        pinyin=True,
        split=True,
        allow=AllowRule.OVERLAP,
        rules=(Rule(RuleKind.REGEX, "pay", "default", 2, ("t",), "支付."), Rule(RuleKind.MOBILE)),
    )
    shown = (await client.get("/api/word-lists/mine")).json()
    WordListDetail.model_validate(shown)
    assert shown["words"][0] == word | {"category": "default", "level": 1}
    assert {name: shown["options"][name] for name in options if name != "rules"} == {
        name: value for name, value in options.items() if name != "rules"
    }
    assert shown["options"]["rules"][1] == {
        "kind": "mobile",
        "name": "",
        "category": "default",
        "level": 1,
        "tags": [],
        "pattern": "",
        "min_digits": 8,
        "skip_dates": False,
    }
    await client.put("/api/word-lists/mine", json=words("b"))
    assert (await load(rig.ledger, "acme", ListVersion("mine", 2))).options == ListOptions()
    assert (await load(rig.ledger, "acme", ListVersion("mine", 1))).options == content.options


async def test_a_whole_number_may_be_written_with_a_point(rig: Rig, client: httpx.AsyncClient) -> None:
    """As some languages do; the words beside it are taken as they are."""
    body = words("b", "a", options={"max_gap": 2.0})
    body["words"][1] |= {"level": 7.0, "tags": ["x"], "mode": "substring"}
    assert (await client.put("/api/word-lists/mine", json=body)).status_code == 200
    content = await load(rig.ledger, "acme", ListVersion("mine", 1))
    assert content.words == (Word("b"), Word("a", level=7, tags=("x",), mode=Mode.SUBSTRING))
    assert content.options.max_gap == 2
