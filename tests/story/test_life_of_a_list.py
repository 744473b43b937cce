"""The life of a word list: on trial in shadow mode, then in force, then without effect again."""

from __future__ import annotations

from detectsched.command import CommandKind, CommandPolicy
from detectsched.db.audit import Actor
from detectsched.db.command_policies import put_policy
from detectsched.db.list_versions import roll_back
from detectsched.db.statistics import count_due
from detectsched.db.word_lists import delete, publish
from detectsched.settings import Settings
from detectsched.task import DEFAULT_TENANT, TaskState
from detectsched.wordlist import ListOptions, Mode, Rule, RuleKind, Word
from tests.support.actors import new_text
from tests.support.system import System, dispatching, runner

ME = Actor("test")


async def examined(system: System, text: str) -> tuple[int, int, list[tuple[str, bool]], list[str]]:
    """Have a text examined: hit count, top level, its hits with whether they are shadows, and what was commanded."""
    [task_id] = await system.submit(new_text(1, text))
    view = await system.wait_for(task_id, TaskState.SUCCEEDED)
    assert view.detection is not None
    async with system.ledger.connection() as connection:
        commands = await connection.fetch("SELECT policy FROM command WHERE task_id = $1", task_id)
    hits = [(hit.word, hit.shadow) for hit in view.hits]
    assert view.detection.shadow_count == sum(is_shadow for _, is_shadow in hits)
    return view.detection.hit_count, view.detection.top_level, hits, [row["policy"] for row in commands]


async def test_a_list_on_trial_has_no_consequences(settings: Settings) -> None:
    """Its hits are kept apart: no command, no count, no level. Once in force they have; rolled back, none again."""
    async with dispatching(settings) as system, runner(settings, "text"):
        ledger = system.ledger
        await put_policy(ledger, DEFAULT_TENANT, CommandPolicy("lock", CommandKind.LOCK_SCREEN), enabled=True, by=ME)
        trial = ListOptions(shadow=True)
        words = [Word("secret", "leak", 9)]
        await publish(ledger, DEFAULT_TENANT, "new", words, name="N", is_default=True, by=ME, options=trial)
        assert await examined(system, "a secret plan") == (0, 0, [("secret", True)], [])
        known = [Word("plan", "other", 2)]
        await publish(ledger, DEFAULT_TENANT, "old", known, name="O", is_default=True, by=ME)
        assert await examined(system, "a secret plan") == (1, 2, [("secret", True), ("plan", False)], ["lock"])
        await publish(ledger, DEFAULT_TENANT, "new", words, name="N", is_default=True, by=ME)
        assert await examined(system, "a secret plan") == (2, 9, [("secret", False), ("plan", False)], ["lock"])
        await roll_back(ledger, DEFAULT_TENANT, "new", 1, by=ME)
        assert await examined(system, "a secret") == (0, 0, [("secret", True)], [])
        await delete(ledger, DEFAULT_TENANT, "new", by=ME)
        assert await examined(system, "a secret") == (0, 0, [], [])
        while await count_due(ledger, limit=1000):
            pass
        async with ledger.connection() as connection:
            sums = await connection.fetch("SELECT word, hits FROM stat_word WHERE word <> '' ORDER BY word")
            audited = await connection.fetchval("SELECT count(*) FROM audit_log WHERE action = 'hit'")
        assert [tuple(row) for row in sums] == [("plan", 2), ("secret", 1)]
        assert audited == 2


async def test_a_list_on_trial_takes_no_room_from_others(settings: Settings) -> None:
    """A word that stands everywhere, a thousand times in a text, hides no hit of a list in force."""
    async with dispatching(settings) as system, runner(settings, "text"):
        noisy = ListOptions(
            mode=Mode.SUBSTRING, shadow=True, rules=(Rule(RuleKind.REGEX, "all", level=99, pattern="的"),)
        )
        everywhere = [Word("的", level=99)]
        await publish(system.ledger, DEFAULT_TENANT, "a", everywhere, name="A", is_default=True, by=ME, options=noisy)
        await publish(system.ledger, DEFAULT_TENANT, "b", [Word("plan")], name="B", is_default=True, by=ME)
        count, level, hits, _ = await examined(system, "的" * 60_000 + " plan")
        assert (count, level) == (1, 1)
        assert [hit for hit in hits if not hit[1]] == [("plan", False)]
        assert 0 < len(hits) - 1 <= 1000
