"""Compiled lists: made once, kept by version, away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from detectsched.db.connection import Ledger
from detectsched.db.word_lists import publish
from detectsched.detection import ListVersion, Text
from detectsched.runner.matchers import CompiledLists
from detectsched.settings import PostgresSettings
from detectsched.task import DEFAULT_TENANT
from detectsched.wordlist import ListOptions, Rule, RuleKind, Word


@pytest.fixture
async def ledger(postgres_url: str) -> AsyncIterator[Ledger]:
    """Give a ledger on a fresh, migrated database."""
    opened = Ledger(PostgresSettings(url=SecretStr(postgres_url), pool_size=4, read_pool_size=2))
    yield opened
    await opened.close()


async def published(
    ledger: Ledger, *words: str, list_id: str = "words", options: ListOptions | None = None
) -> ListVersion:
    """Publish some words."""
    entries = list(map(Word, words))
    return await publish(
        ledger, DEFAULT_TENANT, list_id, entries, name="Words", is_default=True, by="test", options=options
    )


async def test_a_matcher_is_made_once_for_all_who_ask(ledger: Ledger) -> None:
    """At the same time, and later; another version is another one, and the old one goes on to be there."""
    compiled = CompiledLists(ledger)
    first = await published(ledger, "a")
    one, *others = await asyncio.gather(*(compiled.matcher(DEFAULT_TENANT, (first,)) for _ in range(20)))
    assert all(other is one for other in others)
    second = await published(ledger, "b")
    assert await compiled.matcher(DEFAULT_TENANT, (second,)) is not one
    assert await compiled.matcher(DEFAULT_TENANT, (first,)) is one
    assert compiled.versions() == [(DEFAULT_TENANT, second), (DEFAULT_TENANT, first)]
    assert compiled.described() == "default/words@1 default/words@2"


async def test_options_and_rules_come_with_the_words(ledger: Ledger) -> None:
    """A version is matched as it was published."""
    version = await published(ledger, "69", options=ListOptions(numerals=True, rules=(Rule(RuleKind.MOBILE),)))
    matcher = await CompiledLists(ledger).matcher(DEFAULT_TENANT, (version,))
    assert [hit.word for hit in matcher.match(Text("六九 13800138000")).hits] == ["69", "mobile"]


@pytest.mark.parametrize("count", [0, 1, 999, 5_000, 5_001, 12_000])
async def test_lists_of_any_size_are_loaded_whole(ledger: Ledger, count: int) -> None:
    """Those that are compiled here, and those that are compiled apart, read page by page."""
    version = await published(ledger, *(f"w{number}" for number in range(count)))
    matcher = await CompiledLists(ledger).matcher(DEFAULT_TENANT, (version,))
    assert matcher.word_count == count
    wanted = [f"w{number}" for number in (0, count // 2, count - 1) if 0 <= number < count]
    found = {hit.word for hit in matcher.match(Text(" ".join(wanted))).hits}
    assert found == set(wanted)


async def test_one_that_gives_up_does_not_take_it_from_the_others(ledger: Ledger) -> None:
    """Its task was cancelled; the compilation goes on."""
    compiled = CompiledLists(ledger)
    version = await published(ledger, *(f"w{number}" for number in range(2_000)))
    gone = asyncio.create_task(compiled.matcher(DEFAULT_TENANT, (version,)))
    patient = asyncio.create_task(compiled.matcher(DEFAULT_TENANT, (version,)))
    await asyncio.sleep(0)
    gone.cancel()
    assert (await patient).word_count == 2_000


async def test_what_is_used_least_is_dropped(ledger: Ledger) -> None:
    """Memory has a bound, by number and by words."""
    compiled = CompiledLists(ledger, kept_words=250)
    small = [await published(ledger, "a", list_id=f"small-{number}") for number in range(40)]
    for version in small:
        await compiled.matcher(DEFAULT_TENANT, (version,))
    assert len(compiled.versions()) == 32
    large = [await published(ledger, *(f"w{n}" for n in range(100)), list_id=f"large-{each}") for each in range(3)]
    for version in large:
        await compiled.matcher(DEFAULT_TENANT, (version,))
    assert [version for _, version in compiled.versions()] == large[1:]
