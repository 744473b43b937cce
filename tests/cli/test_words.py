"""``detectsched words``: from a file to a version, and back."""

from __future__ import annotations

from pathlib import Path

from detectsched.task import TaskError, TaskState
from tests.api.rig import Rig, png
from tests.cli.conftest import Shell


async def test_from_a_file_to_a_version_and_back(rig: Rig, shell: Shell, tmp_path: Path) -> None:
    """Import, diff, test, publish, rollback, list, versions, terms."""
    file = tmp_path / "words.csv"
    file.write_text("text,level\n套现,3\nsecret,x\n的,1\n")
    dry = await shell("words", "import", "fraud", str(file), "--dry-run")
    assert dry.out.splitlines() == [
        "2 words in 3 lines, 0 of them empty",
        "line 3: error: level 'x' is no whole number from 1 to 100",
        "line 4: warning: '的' is in almost every text: everything will be a hit",
        "nothing was done",
    ]
    refused = await shell("words", "import", "fraud", str(file))
    assert refused.status == 2
    assert "nothing was imported" in refused.err
    assert "line 3: error: level 'x'" in refused.err
    taken = await shell("words", "import", "fraud", str(file), "--skip-errors", "--category", "fraud")
    assert taken.out.endswith("the draft of fraud has 2 words, revision 1\n")
    more = tmp_path / "more.txt"
    more.write_text("secret\n")
    assert (await shell("words", "import", "fraud", str(more), "--add", "--level", "5")).status == 0
    diff = (await shell("words", "diff", "fraud")).out.splitlines()
    assert diff[0] == "fraud 0 -> draft: 3 added, 0 removed, 0 changed"
    assert diff[1:] == ["+ secret  (default 5)", "+ 套现  (fraud 3)", "+ 的  (fraud 1)"]
    tried = (await shell("words", "test", "a secret", "--draft", "fraud")).out.splitlines()
    assert tried[1].split() == ["secret", "secret", "5", "default", "fraud", "(draft)", "-"]
    assert tried[2] == "searched by fraud (draft)"
    moved = await shell("words", "publish", "fraud", "--expect", "1")
    assert moved.err.startswith("detectsched: the current version of 'fraud' is 0, not 1")
    assert (await shell("words", "publish", "fraud")).out == "fraud is at version 1, 3 words\n"
    await shell("words", "import", "fraud", str(more))
    assert (await shell("words", "publish", "fraud")).out == "fraud is at version 2, 1 words\n"
    back = await shell("words", "rollback", "fraud", "1", "--expect", "2")
    assert back.out == "fraud is at version 3, 3 words\n"
    listed = (await shell("words", "list")).out.splitlines()
    assert listed[1].split()[:7] == ["fraud", "fraud", "3", "3", "yes", "no", "no"]
    versions = (await shell("words", "versions", "fraud", "-o", "json")).document
    assert [(item["version"], item["restores"]) for item in versions] == [(3, 1), (2, None), (1, None)]
    assert (await shell("words", "set", "fraud", "--shadow", "--no-default", "--name", "Fraud")).status == 0
    assert "  shadow: no -> yes" in (await shell("words", "diff", "fraud")).out.splitlines()
    assert (await shell("words", "publish", "fraud")).out == "fraud is at version 4, 3 words, in shadow mode\n"
    assert (await shell("words", "rollback", "fraud", "3")).out == "fraud is at version 5, 3 words\n"
    terms = (await shell("words", "terms", "fraud")).out.splitlines()
    assert terms[-2:] == ["of 0 hits since -; 0 terms in all", "3 words were not found: 套现, 的, secret"]
    assert (await shell("words", "test", "nothing at all")).out == "nothing was found\nsearched by no list\n"
    named = await shell("words", "test", "nothing at all", "--list", "fraud")
    assert named.out == "nothing was found\nsearched by fraud v5\n"


async def test_an_image_is_tried(rig: Rig, shell: Shell, tmp_path: Path) -> None:
    """Without a runner it waits, and can be asked for again."""
    image = tmp_path / "a.png"
    image.write_bytes(png())
    missing = await shell("words", "test", "--image", str(tmp_path / "b.png"))
    assert missing.status == 2
    assert "cannot be read" in missing.err
    assert (await shell("words", "test")).err == "detectsched: give one of: a text, --image, --task\n"
    async with rig.client() as client:
        await client.put("/api/word-lists/mine", json={"name": "n", "words": [{"text": "a"}]})
        files = {"image": ("a.png", png(), "image/png")}
        waits = (await client.post("/api/word-lists/test?wait=0", files=files)).json()
    [started] = await rig.begin("ocr")
    assert str(started.delivery.task_id) == waits["task_id"]
    await rig.finish(started, TaskState.FAILED, error=TaskError("undecodable_image", "cut short"))
    unread = await shell("words", "test", "--task", waits["task_id"])
    assert unread.status == 1
    assert "nothing was read" in unread.err
