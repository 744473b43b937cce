"""``detectsched bench matching``: how fast texts are searched, and what it takes to load many words."""

from __future__ import annotations

import asyncio
import json
import platform
import random
import statistics
import string
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import perf_counter, thread_time
from typing import Final, NamedTuple, TypeVar

import psutil
from rich.console import Console
from rich.table import Column, Table

from detectsched import __version__
from detectsched.api.lists import PublishWordList, parse
from detectsched.clock import monotonic
from detectsched.detection import ListVersion, Text
from detectsched.matching.apart import compile_apart
from detectsched.matching.automaton import require
from detectsched.matching.folding import Folding, fold_table
from detectsched.matching.matcher import Matcher
from detectsched.matching.noise import noise_table
from detectsched.matching.normalise import normalise
from detectsched.wordlist import ListContent, ListOptions, Repeats, SearchLibrary, Word

SIZES: Final = (1_000, 10_000, 100_000)
CLAIM_SECONDS: Final = 0.05
"""Longest stall of an event loop that loading a list may cause."""
_BYTES: Final = 1_000_000
_SHORT: Final = 500
_DIRTY: Final = 0.02
_DIRT: Final = ("\u200b", "*", " ", "．", "é", "①", "ﬁ")
_SENTENCES: Final = (
    "明天上午十点在三楼会议室开会，请大家准时参加。",
    "您的快递已到达小区门口，请凭取件码 6-2-1081 领取。",
    "Please find the minutes attached; the next review is on Thursday at 14:30.",
    "周末一起去爬山吗？听说山顶的风景很好！",
    "The parcel was handed over to the neighbour on the second floor.",
    "今晚想吃火锅，还是随便炒两个菜？冰箱里还有番茄和鸡蛋。",
    "会议纪要已经发到群里了，有问题请在今天下班之前提出来。",
)
"""Ordinary ones, as chats and screenshots have them."""
_HAN: Final = tuple(map(chr, range(0x4E00, 0x6000)))
_TICK_SECONDS: Final = 0.001
_TRIES: Final = 3
"""The shortest of the longest stalls counts: what is our own doing comes each time, what others do does not."""
_AS_IT_STANDS: Final = ListOptions(max_gap=0, repeats=Repeats.OFF)
_LIST: Final = ListVersion("bench", 1)

Answer = TypeVar("Answer")


class Loaded(NamedTuple):
    """A list of so many words, and what loading it took."""

    words: int
    contents: ListContent
    matcher: Matcher
    seconds: float
    bytes: int
    stall: float


async def run_matching(
    *,
    rounds: int,
    library: SearchLibrary = SearchLibrary.PYAHOCORASICK,
    sizes: Sequence[int] = SIZES,
    text_bytes: int = _BYTES,
) -> int:
    """Measure lists of these sizes; return 0 when loading never stalled the loop longer than claimed, 1 when it did."""
    require(library)
    console = Console()
    pick = random.Random(7)  # noqa: S311 - reproducible, not secret
    fold_table(Folding(homoglyphs=True))
    noise_table()
    texts = {"clean": _text(pick, text_bytes, 0.0), "dirty": _text(pick, text_bytes, _DIRTY)}
    console.print(_folding(texts, rounds))
    loaded = [await _load(_words(pick, size), library) for size in sizes]
    console.print(_loads(loaded))
    plain = [await _as_it_stands(one, library) for one in loaded]
    console.print(_speeds(loaded, plain, texts, rounds))
    body = json.dumps({"name": "n", "words": [{"text": word.text} for word in loaded[-1].contents.words]}).encode()
    checking = min(
        [(await _watched(lambda: asyncio.to_thread(parse, body, PublishWordList)))[1] for _ in range(_TRIES)]
    )
    console.print(
        f"a body of {len(body) / 1e6:.1f} MB with {sizes[-1]:,} words is checked: "
        f"longest stall of the event loop {1000 * checking:.1f} ms"
    )
    console.print(
        f"detectsched {__version__}, Python {platform.python_version()}, {platform.machine()}, {sys.platform}; "
        f"texts of {text_bytes / 1e6:g} MB of UTF-8, medians of {rounds} rounds, in seconds of one core",
        highlight=False,
    )
    worst = max(checking, *(one.stall for one in loaded))
    holds = worst <= CLAIM_SECONDS
    console.print(
        f"claim: loading stalls the event loop at most {1000 * CLAIM_SECONDS:.0f} ms: "
        f"{'holds' if holds else 'does not hold'} ({1000 * worst:.1f} ms)"
    )
    return 0 if holds else 1


def _folding(texts: dict[str, str], rounds: int) -> Table:
    table = Table("folding alone", *(Column(name, justify="right") for name in texts), title="MB/s of UTF-8")
    table.add_row("", *(_speed(partial(normalise, text), text, rounds) for text in texts.values()))
    return table


def _loads(loaded: Sequence[Loaded]) -> Table:
    columns = ("words", "s in its process", "MB", "longest stall ms")
    table = Table(*(Column(name, justify="right") for name in columns), title="Loading a list")
    for one in loaded:
        table.add_row(f"{one.words:,}", f"{one.seconds:.2f}", f"{one.bytes / 1e6:.1f}", f"{1000 * one.stall:.1f}")
    return table


async def _as_it_stands(one: Loaded, library: SearchLibrary) -> Matcher:
    contents = ListContent(one.contents.words, _AS_IT_STANDS)
    return Matcher({_LIST: contents}, await compile_apart([contents], library))


def _speeds(loaded: Sequence[Loaded], plain: Sequence[Matcher], texts: dict[str, str], rounds: int) -> Table:
    columns = [f"{how}, {name}" for how in ("as it stands", "past noise") for name in texts]
    table = Table(
        "words", *(Column(name, justify="right") for name in (*columns, f"{_SHORT} characters µs")),
        title="Folding and matching, MB/s of UTF-8",
    )  # fmt: skip
    for one, simple in zip(loaded, plain, strict=True):
        figures = [
            _speed(partial(judges.match, Text(text)), text, rounds)
            for judges in (simple, one.matcher)
            for text in texts.values()
        ]
        short = partial(one.matcher.match, Text(texts["clean"][:_SHORT]))
        seconds = statistics.median(_seconds(short) for _ in range(50 * rounds))
        table.add_row(f"{one.words:,}", *figures, f"{1e6 * seconds:.0f}")
    return table


def _speed(call: Callable[[], object], text: str, rounds: int) -> str:
    seconds = statistics.median(_seconds(call) for _ in range(rounds))
    return f"{len(text.encode()) / 1e6 / seconds:.1f}"


def _seconds(call: Callable[[], object]) -> float:
    # What other programs take of the machine is not counted.
    begun = thread_time()
    call()
    return thread_time() - begun


async def _load(words: Sequence[Word], library: SearchLibrary) -> Loaded:
    contents = ListContent(tuple(words))

    async def load() -> Matcher:
        return Matcher({_LIST: contents}, await compile_apart([contents], library))

    before = psutil.Process().memory_info().rss
    begun = perf_counter()
    matcher, stall = await _watched(load)
    seconds = perf_counter() - begun
    size = psutil.Process().memory_info().rss - before
    for _ in range(_TRIES - 1):
        stall = min(stall, (await _watched(load))[1])
    return Loaded(len(words), contents, matcher, seconds, size, stall)


async def _watched(work: Callable[[], Awaitable[Answer]]) -> tuple[Answer, float]:
    """Return what some work returns, and the longest time for which the event loop did nothing else meanwhile."""
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        last = monotonic()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = monotonic()
            worst = max(worst, now - last - _TICK_SECONDS)
            last = now

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    try:
        return await work(), worst
    finally:
        ticking.cancel()


def _words(pick: random.Random, count: int) -> list[Word]:
    """Return four fifths of Chinese words, one of Latin ones."""
    found: dict[str, None] = {}
    while len(found) < count:
        letters, longest = (string.ascii_lowercase, 12) if pick.random() < 0.2 else (_HAN, 6)
        found["".join(pick.choices(letters, k=pick.randint(2 if longest == 6 else 5, longest)))] = None
    return list(map(Word, found))


def _text(pick: random.Random, size_wanted: int, dirt: float) -> str:
    """Return ordinary sentences with random characters between them, so that prefixes of words are met."""
    parts: list[str] = []
    size = 0
    while size < size_wanted:
        sentence = pick.choice(_SENTENCES) + "".join(pick.choices(_HAN, k=12)) + "。"
        broken = "".join(one + pick.choice(_DIRT) if pick.random() < dirt else one for one in sentence)
        parts.append(broken)
        size += len(broken.encode())
    return "".join(parts)
