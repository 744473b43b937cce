"""Lints the Lua scripts: ``python -m tools.lua_lint DIRECTORY`` (scripts in it, their includes in ``include/``).

Reports, each with file and line: syntax that Redis' Lua 5.1 does not know, globals written or read outside the set that
Redis gives, locals never read, includes that are missing, doubled or not needed, and a header without its parts.
Every file is parsed once by itself (an include must be whole statements); a script's names are then resolved over its
includes in order, as `queueing.scripts` expands them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

with warnings.catch_warnings():
    # Its generated parser holds invalid escape sequences.
    warnings.simplefilter("ignore")
    from luaparser import ast, astnodes

INCLUDE: Final = "-- @include "
GLOBALS: Final = frozenset(
    {
        *("redis", "KEYS", "ARGV", "cjson", "cmsgpack", "struct", "bit", "string", "table", "math"),
        *("tonumber", "tostring", "ipairs", "pairs", "next", "select", "unpack", "type", "error", "pcall"),
    }
)
HEADER_PARTS: Final = ("KEYS[", "ARGV[", "Answers:")
# luaparser reads Lua 5.4; these fail in Redis.
_NOT_IN_5_1: Final = (astnodes.Goto, astnodes.Label, astnodes.FloorDivOp, astnodes.BitOp, astnodes.UBNotOp)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One complaint."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(slots=True)
class Local:
    """A declared name, and whether anything reads it."""

    path: Path
    line: int
    read: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A file: its tree (None where it cannot be parsed) and the includes it names, with their lines."""

    path: Path
    lines: list[str]
    tree: Any
    includes: list[tuple[int, str]] = field(default_factory=list)


def lint(directory: Path) -> list[Finding]:
    """Return everything wrong with the scripts of a directory."""
    library = Library(directory)
    findings: set[Finding] = set()
    includes: dict[Finding, bool] = {}
    for path in sorted(directory.glob("*.lua")):
        script = library.source(path)
        findings.update(check_header(script))
        chain = list(library.chain(script))
        if any(source.tree is None for source in chain):
            continue  # the syntax error is reported; what follows from it would only distract
        resolver = Resolver()
        for source in chain:
            resolver.run(source)
        findings.update(resolver.findings)
        findings.update(unneeded_includes(script, library, resolver))
        findings.update(
            Finding(path, local.line, f"local {name} is never read")
            for name, local in resolver.declared
            if local.path == path and not local.read
        )
        # Of an include, a script uses what it needs: only what no script at all reads is too much.
        for name, local in resolver.declared:
            if local.path in resolver.files_in_use() - {path}:
                finding = Finding(local.path, local.line, f"local {name} is never read by any script")
                includes[finding] = includes.get(finding, True) and not local.read
    findings.update(finding for finding, unused in includes.items() if unused)
    return sorted(findings | library.findings)


class Library:
    """Reads files once and follows their includes."""

    def __init__(self, directory: Path) -> None:
        self._includes = directory / "include"
        self._sources: dict[Path, Source] = {}
        self.findings: set[Finding] = set()

    def source(self, path: Path) -> Source:
        """Return a file, parsed."""
        if path not in self._sources:
            self._sources[path] = self._read(path)
        return self._sources[path]

    def include(self, name: str) -> Path:
        """Return where an include lies."""
        return self._includes / f"{name}.lua"

    def chain(self, source: Source, above: tuple[Path, ...] = ()) -> Iterator[Source]:
        """Yield what a file includes, depth first, then the file itself."""
        seen: set[Path] = set()
        for line, name in source.includes:
            path = self.include(name)
            if not path.is_file():
                self.findings.add(Finding(source.path, line, f"there is no include {name}"))
            elif path in above or path == source.path:
                self.findings.add(Finding(source.path, line, f"include {name} leads back to itself"))
            else:
                for found in self.chain(self.source(path), (*above, source.path)):
                    if found.path in seen:
                        self.findings.add(Finding(source.path, line, f"{found.path.stem} is included twice"))
                    seen.add(found.path)
                    yield found
        yield source

    def _read(self, path: Path) -> Source:
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        includes = [(n, s.removeprefix(INCLUDE).strip()) for n, s in enumerate(lines, 1) if s.startswith(INCLUDE)]
        try:
            tree = ast.parse(text)
        except Exception as error:  # noqa: BLE001 - luaparser raises whatever its parts raise
            self.findings.add(syntax_finding(path, error))
            tree = None
        return Source(path, lines, tree, includes)


def syntax_finding(path: Path, error: BaseException) -> Finding:
    """Dig out of luaparser's exception where it stopped understanding."""
    cause = error.__context__
    token = getattr(cause.args[0], "offendingToken", None) if cause is not None and cause.args else None
    if token is not None:
        return Finding(path, token.line, f"syntax error near {token.text!r}")
    said = str(error).removeprefix("syntax errors: ")
    number = said.removeprefix("line ").partition(":")[0]
    return Finding(path, int(number) if number.isdigit() else 1, f"syntax error: {said}")


class Resolver:
    """Walks trees with Lua's scoping rules and notes what each name means."""

    def __init__(self) -> None:
        self.declared: list[tuple[str, Local]] = []
        self.findings: list[Finding] = []
        self._scopes: list[dict[str, Local]] = [{}]
        self._path = Path()
        self._line = 1

    def run(self, source: Source) -> None:
        """Resolve a file in the scope that the files before it left."""
        self._path = source.path
        if source.tree is not None:
            self._visit(source.tree.body.body)

    def files_in_use(self) -> set[Path]:
        """Return the files of which at least one name is read."""
        return {local.path for _, local in self.declared if local.read}

    def _visit(self, node: Any) -> None:
        if isinstance(node, list):
            for item in node:
                self._visit(item)
            return
        if not isinstance(node, astnodes.Node):
            return
        self._line = node.line or self._line
        if isinstance(node, _NOT_IN_5_1):
            self._complain(f"{node.display_name} is not in Lua 5.1")
            return
        visit = getattr(self, f"_visit_{type(node).__name__}", None)
        if visit is not None:
            visit(node)
            return
        for name, child in vars(node).items():
            if not name.startswith("_") and name != "comments":
                self._visit(child)

    def _visit_Name(self, node: Any) -> None:  # noqa: N802 - named after the node
        self._use(node.id, written=False)

    def _visit_Block(self, node: Any) -> None:  # noqa: N802
        with self._scope():
            self._visit(node.body)

    def _visit_Repeat(self, node: Any) -> None:  # noqa: N802
        # The condition sees the locals of the body.
        with self._scope():
            self._visit(node.body.body)
            self._visit(node.test)

    def _visit_LocalAssign(self, node: Any) -> None:  # noqa: N802
        self._visit(node.values)
        self._declare(node.targets)

    def _visit_Assign(self, node: Any) -> None:  # noqa: N802
        self._visit(node.values)
        for target in node.targets:
            if isinstance(target, astnodes.Name):
                self._use(target.id, written=True)
            else:
                self._visit(target)

    def _visit_LocalFunction(self, node: Any) -> None:  # noqa: N802
        # Declared first: it may call itself.
        self._declare([node.name])
        self._function(node)

    def _visit_Function(self, node: Any) -> None:  # noqa: N802
        if isinstance(node.name, astnodes.Name):
            self._use(node.name.id, written=True)
        else:
            self._visit(node.name)
        self._function(node)

    def _visit_AnonymousFunction(self, node: Any) -> None:  # noqa: N802
        self._function(node)

    def _visit_Fornum(self, node: Any) -> None:  # noqa: N802
        self._visit([node.start, node.stop, node.step])
        self._loop([node.target], node.body)

    def _visit_Forin(self, node: Any) -> None:  # noqa: N802
        self._visit(node.iter)
        self._loop(node.targets, node.body)

    def _visit_Index(self, node: Any) -> None:  # noqa: N802
        self._visit(node.value)
        if node.notation is astnodes.IndexNotation.SQUARE:
            self._visit(node.idx)

    def _visit_Field(self, node: Any) -> None:  # noqa: N802
        if node.between_brackets:
            self._visit(node.key)
        self._visit(node.value)

    def _visit_Invoke(self, node: Any) -> None:  # noqa: N802
        self._visit(node.source)
        self._visit(node.args)

    def _function(self, node: Any) -> None:
        self._loop([argument for argument in node.args if isinstance(argument, astnodes.Name)], node.body)

    def _loop(self, names: Iterable[Any], body: Any) -> None:
        with self._scope():
            self._declare(names)
            self._visit(body)

    @contextmanager
    def _scope(self) -> Iterator[None]:
        self._scopes.append({})
        yield
        self._scopes.pop()

    def _declare(self, names: Iterable[Any]) -> None:
        for name in names:
            local = Local(self._path, name.line or self._line)
            self._scopes[-1][name.id] = local
            if not name.id.startswith("_"):
                self.declared.append((name.id, local))

    def _use(self, name: str, *, written: bool) -> None:
        local = next((scope[name] for scope in reversed(self._scopes) if name in scope), None)
        if local is not None:
            local.read = local.read or not written
        elif written:
            self._complain(f"assignment to the global {name}: declare it local")
        elif name not in GLOBALS:
            self._complain(f"{name} is neither a local nor a global that Redis gives")

    def _complain(self, message: str) -> None:
        self.findings.append(Finding(self._path, self._line, message))


def check_header(script: Source) -> Iterator[Finding]:
    """Yield what a script's leading comment lacks: what it does, KEYS, ARGV, the words it answers with."""
    header = []
    for line in script.lines:
        if not line.startswith("--") or line.startswith(INCLUDE):
            break
        header.append(line)
    text = "\n".join(header)
    if not header or any(header[0].removeprefix("--").strip().startswith(part) for part in HEADER_PARTS):
        yield Finding(script.path, 1, "the header does not begin with what the script does")
    yield from (
        Finding(script.path, 1, f"the header does not tell {part}") for part in HEADER_PARTS if part not in text
    )


def unneeded_includes(script: Source, library: Library, resolver: Resolver) -> Iterator[Finding]:
    """Yield the includes of which nothing is used, neither by the script nor by another include."""
    used = resolver.files_in_use()
    for line, name in script.includes:
        path = library.include(name)
        if path.is_file() and path not in used:
            yield Finding(script.path, line, f"include {name} is not needed")


def main() -> None:
    """Print the findings; exit status 1 if there are any."""
    findings = [finding for argument in sys.argv[1:] for finding in lint(Path(argument))]
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
