"""The Lua lint finds what is planted, and nothing in what is shipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.lua_lint import lint

HEADER = """\
-- Do a thing.
-- KEYS[1] generation
-- ARGV[1] what
-- Answers: 'OK'.
"""

FAULTS = {
    "syntax": ("local x = = 1\nreturn x", 5, "syntax error"),
    "unfinished": ("if ARGV[1] then\nreturn 1", 7, "syntax error"),
    "lua 5.3 division": ("return 7 // tonumber(ARGV[1])", 5, "is not in Lua 5.1"),
    "goto": ("::again::\nreturn 1", 5, "is not in Lua 5.1"),
    "global written": ("count = 1\nreturn 1", 5, "assignment to the global count"),
    "global function": ("function helper() return 1 end\nreturn 1", 5, "assignment to the global helper"),
    "global written in a function": ("local function f()\n  n = 1\nend\nreturn f()", 6, "assignment to the global n"),
    "global read": ("return ARGV[1] .. suffix", 5, "suffix is neither a local nor a global"),
    "read before the declaration": ("local a = b\nlocal b = 1\nreturn {a, b}", 5, "b is neither a local"),
    "own initialiser": ("local n = n\nreturn n", 5, "n is neither a local"),
    "out of scope": ("if KEYS[1] then local x = 1; redis.log(1, x) end\nreturn x", 6, "x is neither a local"),
    "loop variable outside": ("for i = 1, 2 do redis.log(1, i) end\nreturn i", 6, "i is neither a local"),
    "unknown library": ("return os.time()", 5, "os is neither a local"),
    "unused local": ("local x = 1\nreturn 1", 5, "local x is never read"),
    "written, never read": ("local x = 1\nx = 2\nreturn 1", 5, "local x is never read"),
    "unused function": ("local function f() return 1 end\nreturn 1", 5, "local f is never read"),
    "unused parameter": ("local function f(a, b) return a end\nreturn f(1)", 5, "local b is never read"),
    "shadowed": ("local x = 1\nlocal x = 2\nreturn x", 5, "local x is never read"),
    "missing include": ("-- @include nothing\nreturn 1", 5, "there is no include nothing"),
    "unneeded include": ("-- @include shared\nreturn 1", 5, "include shared is not needed"),
    "include twice": (
        "-- @include shared\n-- @include other\nreturn other() + shared()",
        6,
        "shared is included twice",
    ),
    "include loop": ("-- @include loop\nreturn loop()", 1, "include loop leads back to itself"),
    "include broken": ("-- @include broken\nreturn broken()", 2, "syntax error"),
    "in an include": ("-- @include leaky\nreturn leaky()", 1, "stray is neither a local"),
    "unused in an include": ("-- @include partly\nreturn partly()", 2, "local spare is never read by any script"),
}

GOOD = {
    "fields and methods are no names": "local t = {size = 1, ['x'] = 2}\nreturn t.size + (ARGV[1]):len()",
    "recursion": "local function f(n) if n < 2 then return n end return f(n - 1) end\nreturn f(3)",
    "repeat sees its body": "repeat local done = redis.call('GET', KEYS[1]) until done\nreturn 1",
    "underscore": "local _, b = unpack(ARGV)\nfor _, v in ipairs(KEYS) do redis.log(1, v) end\nreturn b",
    "from an include": "-- @include shared\nreturn shared()",
    "upvalue": "local n = 0\nlocal function f() n = n + 1; return n end\nreturn f()",
    "varargs": "local function f(...) return select('#', ...) end\nreturn f(1, 2)",
}


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """Make a directory with includes, good and bad."""
    includes = {
        "shared": "local function shared() return 1 end",
        "other": "-- @include shared\nlocal function other() return shared() end",
        "loop": "-- @include loop\nlocal function loop() return 1 end",
        "broken": "local function broken()\n  return return\nend",
        "leaky": "local function leaky() return stray end",
        "partly": "local function partly() return 1 end\nlocal function spare() return 1 end",
    }
    (tmp_path / "include").mkdir()
    for name, text in includes.items():
        (tmp_path / "include" / f"{name}.lua").write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_with_its_line(scripts: Path, name: str) -> None:
    """Each fault is reported, alone, at the line where it stands."""
    body, line, message = FAULTS[name]
    (scripts / "planted.lua").write_text(HEADER + body + "\n")
    found = lint(scripts)
    assert [(finding.line, message in finding.message) for finding in found] == [(line, True)], found


@pytest.mark.parametrize("name", GOOD)
def test_good_code_passes(scripts: Path, name: str) -> None:
    """What looks like a fault to a plain search is none."""
    (scripts / "good.lua").write_text(HEADER + GOOD[name] + "\n")
    assert lint(scripts) == []


@pytest.mark.parametrize(
    "part", ["-- Do a thing.\n", "-- KEYS[1] generation\n", "-- ARGV[1] what\n", "-- Answers: 'OK'.\n"]
)
def test_a_header_without_one_of_its_parts_is_found(scripts: Path, part: str) -> None:
    """A script says what it does, its keys, its arguments and its answers."""
    (scripts / "bare.lua").write_text(HEADER.replace(part, "") + "return 1\n")
    assert ["header" in finding.message for finding in lint(scripts)] == [True]


def test_the_shipped_scripts_are_clean() -> None:
    """`make check` is green."""
    assert lint(Path(__file__).parents[2] / "src" / "detectsched" / "queueing" / "lua") == []
