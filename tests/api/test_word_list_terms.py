"""Which words of a list are found, and which are not."""

from __future__ import annotations

import httpx

from detectsched.detection import Detection, Hit, ListVersion
from tests.api.rig import Rig, problem
from tests.api.test_tasks import submit
from tests.api.test_word_list_drafts import MINE, good
from tests.api.test_word_lists import words


def hit(word: str, list_id: str = "mine", rule: str | None = None) -> Hit:
    """Return a hit."""
    return Hit(word, "default", 1, 0, 1, word, ListVersion(list_id, 1), rule=rule)


async def test_noisy_and_dead_terms(rig: Rig, client: httpx.AsyncClient) -> None:
    """Counted per list, shadow hits apart; words that only an older version had are told as found, not as silent."""
    body = words("noisy", "rare", "dead", "allowed", "ip")
    body["words"][3]["allow"] = True
    await client.put(MINE, json=body)
    for detection in (
        Detection((hit("noisy"), hit("noisy"), hit("gone"), hit("ip", rule="ip"), hit("dead", "else")), ()),
        Detection((hit("noisy"),), (), shadow=(hit("rare"),)),
    ):
        task_id = await submit(client)
        [started] = await rig.begin()
        await rig.finish(started, detection=detection)
    told = await good(await client.get(f"{MINE}/terms"))
    assert (told["version"], told["counted"], told["found"], told["silent"]) == (1, 6, 4, 2)
    assert told["since"] is not None
    counts = [(term["word"], term["rule"], term["hits"], term["shadow_hits"], term["tasks"]) for term in told["terms"]]
    assert counts == [("noisy", None, 3, 0, 2), ("gone", None, 1, 0, 1), ("ip", "ip", 1, 0, 1), ("rare", None, 0, 1, 1)]
    assert told["terms"][0]["last_task"] == task_id
    assert told["silent_words"] == ["dead", "ip"]
    short = await good(await client.get(f"{MINE}/terms", params={"limit": 1}))
    assert (len(short["terms"]), short["found"], short["silent_words"], short["silent"]) == (1, 4, ["dead"], 2)
    async with rig.client("other") as stranger:
        problem(await stranger.get(f"{MINE}/terms"), 404, "not_found")
        await stranger.put(MINE, json=words("noisy"))
        theirs = await good(await stranger.get(f"{MINE}/terms"))
        assert (theirs["counted"], theirs["since"], theirs["silent_words"]) == (0, None, ["noisy"])
