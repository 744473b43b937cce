"""docs/settings.md is made from the settings and noticed when it is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from detectsched.settings import environment_names
from tools import settings_doc


def test_every_setting_has_a_row_with_a_meaning() -> None:
    """No variable is left out and none is unexplained."""
    rows = [line.split(" | ") for line in settings_doc.render().splitlines() if line.startswith("| `DETECTSCHED_")]
    assert sorted(row[0].strip("| `") for row in rows) == sorted(name for name, _, _ in environment_names())
    assert [row[0] for row in rows if len(row[-1].strip(" |")) < 10] == []


def test_a_stale_page_fails_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--check passes on what was written and fails on anything else."""
    monkeypatch.setattr(settings_doc, "TARGET", tmp_path / "settings.md")
    monkeypatch.setattr(sys, "argv", ["settings_doc"])
    settings_doc.main()
    monkeypatch.setattr(sys, "argv", ["settings_doc", "--check"])
    settings_doc.main()
    page = settings_doc.TARGET.read_text()
    settings_doc.TARGET.write_text(page.replace("`8080`", "`8081`"))
    with pytest.raises(SystemExit, match="make docs"):
        settings_doc.main()
