"""Whatever transactions do, and in whatever order they are committed, each end is counted once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from pydantic import SecretStr

from detectsched.db.connection import Ledger
from detectsched.settings import PostgresSettings
from tests.db.counting import Books, Fact

WORDS = (("c", "a"), ("c", "b"), ("d", "a"))
STATES = ("succeeded", "failed", "dead", "expired", "cancelled")

facts = st.builds(
    Fact,
    state=st.sampled_from(STATES),
    lane=st.sampled_from(("text", "ocr")),
    mac=st.sampled_from((None, "02:00:00:00:00:01", "02:00:00:00:00:02")),
    hours_ago=st.integers(0, 2),
    wait=st.integers(0, 10**9).map(lambda us: timedelta(microseconds=us)),
    run=st.none() | st.integers(0, 10**9).map(lambda us: timedelta(microseconds=us)),
).flatmap(lambda fact: st.just(fact) if fact.state != "succeeded" else with_words(fact))
reports = st.builds(
    Fact,
    state=st.just("reported"),
    lane=st.just(""),
    mac=st.sampled_from(("02:00:00:00:00:01", "02:00:00:00:00:03")),
    hours_ago=st.integers(-2, 40),
    words=st.lists(st.sampled_from(WORDS), max_size=3).map(tuple),
)
step = st.one_of(
    st.tuples(st.just("write"), st.lists(facts, min_size=1, max_size=3), st.booleans()),
    st.tuples(st.just("commit"), st.integers(0, 3)),
    st.tuples(st.just("roll_back"), st.integers(0, 3)),
    st.tuples(st.just("report"), reports),
    st.tuples(st.just("count"), st.integers(1, 4)),
    st.tuples(st.just("begin_count"), st.integers(1, 4)),
    st.tuples(st.just("end_count"), st.booleans()),
    st.tuples(st.just("remove")),
)
SOMETIMES = {"two counted at once", "died between its statements", "committed late", "removed"}


def with_words(fact: Fact) -> st.SearchStrategy[Fact]:
    """Return the same fact with any hits."""
    words = st.lists(st.sampled_from(WORDS), max_size=3).map(tuple)
    return words.map(lambda found: Fact(**{**vars(fact), "words": found}))


@contextmanager
def opened(url: str) -> Iterator[tuple[Books, asyncio.Runner]]:
    """Give the books of a database, and what runs coroutines on them."""
    with asyncio.Runner() as runner:

        async def make() -> Books:
            return Books(url, Ledger(PostgresSettings(url=SecretStr(url), pool_size=4, read_pool_size=2)))

        books = runner.run(make())
        try:
            yield books, runner
        finally:
            runner.run(books.close())
            runner.run(books.ledger.close())


async def play(books: Books, steps: list[tuple[Any, ...]]) -> None:
    """Do the steps; after each, and at the end, the sums must be right."""
    await books.empty()
    try:
        for name, *arguments in steps:
            match name:
                case "write":
                    await books.write(arguments[0], stay_open=arguments[1])
                case "end_count":
                    await books.end_count(dies=arguments[0])
                case _:
                    await getattr(books, name)(*arguments)
            await books.check()
        await books.check_all()
    finally:
        await books.close()


@pytest.mark.timeout(300)
def test_any_interleaving_of_transactions_is_counted_right(postgres_url: str) -> None:
    """Overlapping, late and lost transactions, two counters, one killed before its commit, late reports, removals."""
    examples = os.environ.get("MACHINE_EXAMPLES")
    with opened(postgres_url) as (books, runner):

        @hypothesis.settings(
            max_examples=int(examples or 60),
            derandomize=examples is None,
            database=None,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(st.lists(step, min_size=8, max_size=25))
        def run(steps: list[tuple[Any, ...]]) -> None:
            runner.run(play(books, steps))

        run()
        assert books.met >= SOMETIMES, f"never met: {SOMETIMES - books.met}"


def test_a_transaction_that_commits_late_is_not_missed(postgres_url: str) -> None:
    """It began, and noted its end, before others that were counted meanwhile."""
    with opened(postgres_url) as (books, runner):
        early, later = Fact("failed", hours_ago=3), Fact("succeeded")
        runner.run(
            play(
                books,
                [("write", [early], True), ("write", [later], False), ("count", 10), ("commit", 0), ("count", 10)],
            )
        )
        assert [fact.state for fact in books.journal] == ["succeeded", "failed"]
