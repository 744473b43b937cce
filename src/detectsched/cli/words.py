"""``detectsched words``: word lists, their drafts and versions."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from detectsched.cli.output import Shown, cell, table
from detectsched.cli.remote import Api, contents_of, part, remote
from detectsched.errors import InvalidRequest

app = typer.Typer(
    no_args_is_help=True,
    help="Word lists: list, import, set, diff, test, publish, rollback, versions, terms.",
    rich_markup_mode=None,
)

ListId = Annotated[str, typer.Argument(help="The list's id.")]
Expect = Annotated[int | None, typer.Option(min=0, help="The version to be replaced; if another is current, nothing.")]

_MOST_TOLD: Final = 20


class Kind(StrEnum):
    """What kind of file is imported."""

    AUTO = "auto"
    CSV = "csv"
    TXT = "txt"


@app.command("list")
@remote
async def list_(api: Api) -> Shown:
    """List word lists by id."""
    answer = await api.get("/api/word-lists")
    rows = [
        [
            item["id"],
            item["name"],
            item["version"] or None,
            item["word_count"],
            item["is_default"],
            item["shadow"],
            item["has_draft"],
            item["published_at"],
        ]
        for item in answer["items"]
    ]
    return Shown(answer, table(["ID", "NAME", "VERSION", "WORDS", "DEFAULT", "SHADOW", "DRAFT", "PUBLISHED"], rows))


@app.command("import")
@remote
async def import_(
    api: Api,
    list_id: ListId,
    file: Annotated[Path, typer.Argument(help="CSV with a header, or one word per line; - for standard input.")],
    kind: Annotated[Kind, typer.Option("--format", help="auto: CSV where the name ends in .csv.")] = Kind.AUTO,
    add: Annotated[bool, typer.Option("--add", help="Add to the draft's words instead of replacing them.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what the file holds and what is wrong.")] = False,
    skip_errors: Annotated[bool, typer.Option("--skip-errors", help="Take the good lines though others fail.")] = False,
    category: Annotated[str | None, typer.Option(help="Of words for which the file says none.")] = None,
    level: Annotated[int | None, typer.Option(min=1, max=100, help="The same.")] = None,
) -> Shown:
    """Read a file into the draft of a list, all of it or nothing. Begin with --dry-run; then diff, then publish."""
    data = contents_of(file)
    if kind is Kind.AUTO:
        kind = Kind.CSV if file.suffix.lower() == ".csv" else Kind.TXT
    path = f"/api/word-lists/{part(list_id)}/import"
    media_type = "text/csv" if kind is Kind.CSV else "text/plain"
    given = {"category": category, "level": level, "mode": "add" if add else "replace"}
    report = await api.upload(path, data, media_type, dry_run="true", **given)
    if not dry_run:
        # Told in whole first: a refusal names the first lines only.
        if report["error_count"] and not skip_errors:
            told = "\n".join(_remarks(report, "error"))
            raise InvalidRequest(f"nothing was imported:\n{told}\nmend these lines, or take the others: --skip-errors")
        report = await api.upload(path, data, media_type, skip_errors=str(skip_errors).lower(), **given)
    lines = [f"{report['words']} words in {report['lines']} lines, {report['blank']} of them empty"]
    lines += [*_remarks(report, "error"), *_remarks(report, "warning")]
    draft = report["draft"]
    if draft is None:
        return Shown(report, [*lines, "nothing was done"])
    return Shown(
        report, [*lines, f"the draft of {list_id} has {draft['word_count']} words, revision {draft['revision']}"]
    )


@app.command("set")
@remote
async def set_(
    api: Api,
    list_id: ListId,
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    default: Annotated[
        bool | None, typer.Option("--default/--no-default", help="Whether it judges tasks that name no list.")
    ] = None,
    shadow: Annotated[
        bool | None, typer.Option("--shadow/--no-shadow", help="Shadow mode: nothing follows from its hits.")
    ] = None,
) -> Shown:
    """Change the draft of a list beside its words; what is not given stays as it is."""
    given = {"name": name, "is_default": default, "shadow": shadow}
    changes = {field: value for field, value in given.items() if value is not None}
    draft = await api.patch(f"/api/word-lists/{part(list_id)}/draft", changes)
    lines = [f"the draft of {list_id} has {draft['word_count']} words, revision {draft['revision']}; see it with diff"]
    return Shown(draft, lines)


@app.command()
@remote
async def diff(
    api: Api,
    list_id: ListId,
    old: Annotated[str, typer.Option(help="A version, current or draft.")] = "current",
    new: Annotated[str, typer.Option(help="The same.")] = "draft",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most words to show.")] = 200,
) -> Shown:
    """Show which words two versions differ in, or a version and the draft."""
    found = await api.get(f"/api/word-lists/{part(list_id)}/diff", old=old, new=new, limit=limit)
    counts = f"{found['added']} added, {found['removed']} removed, {found['changed']} changed"
    lines = [f"{list_id} {found['old']} -> {found['new']}: {counts}"]
    if found["old_options"] is not None:
        lines += [
            f"  {name}: {cell(before)} -> {cell(found['new_options'][name])}"
            for name, before in found["old_options"].items()
            if before != found["new_options"][name]
        ]
    for change in found["items"]:
        before, after = change["before"], change["after"]
        if before is not None:
            lines.append(f"- {_word(before)}")
        if after is not None:
            lines.append(f"+ {_word(after)}")
    if found["next_cursor"] is not None:
        lines.append(f"(the first {len(found['items'])} words; see more with --limit)")
    return Shown(found, lines)


@app.command()
@remote
async def publish(
    api: Api,
    list_id: ListId,
    expect: Expect = None,
    revision: Annotated[int | None, typer.Option(min=1, help="The draft's revision that you have seen.")] = None,
) -> Shown:
    """Make the draft of a list its current version; without --expect the one from which it was begun is replaced."""
    body = {"expected_version": expect, "revision": revision}
    return _published(await api.post(f"/api/word-lists/{part(list_id)}/publish", body))


@app.command()
@remote
async def rollback(
    api: Api,
    list_id: ListId,
    version: Annotated[int, typer.Argument(min=1, help="The version whose words and options come back.")],
    expect: Expect = None,
) -> Shown:
    """Publish what an earlier version of a list holds, as a new version."""
    body = {"version": version, "expected_version": expect}
    return _published(await api.post(f"/api/word-lists/{part(list_id)}/rollback", body))


@app.command()
@remote
async def versions(
    api: Api, list_id: ListId, limit: Annotated[int, typer.Option(min=1, help="Most versions to show.")] = 50
) -> Shown:
    """List the versions of a list, newest first."""
    items = await api.pages(f"/api/word-lists/{part(list_id)}/versions", limit=limit, most=200)
    names = ("version", "word_count", "shadow", "restores", "published_at", "published_by")
    header = ["VERSION", "WORDS", "SHADOW", "RESTORES", "PUBLISHED", "BY"]
    return Shown(items, table(header, [[item[name] for name in names] for item in items]))


@app.command()
@remote
async def terms(
    api: Api, list_id: ListId, limit: Annotated[int, typer.Option(min=1, max=1000, help="Most to show.")] = 50
) -> Shown:
    """Count the latest hits of a list by word, and name words that were not found."""
    told = await api.get(f"/api/word-lists/{part(list_id)}/terms", limit=limit)
    names = ("word", "rule", "hits", "shadow_hits", "tasks")
    rows = [[term[name] for name in names] for term in told["terms"]]
    lines = table(["WORD", "RULE", "HITS", "SHADOW", "TASKS"], rows)
    lines.append(f"of {told['counted']} hits since {cell(told['since'])}; {told['found']} terms in all")
    words = ", ".join(map(cell, told["silent_words"]))
    lines.append(f"{told['silent']} words were not found" + (f": {words}" if words else ""))
    return Shown(told, lines)


@app.command("test")
@remote
async def try_(
    api: Api,
    text: Annotated[str | None, typer.Argument(help="A text; - for standard input.")] = None,
    image: Annotated[Path | None, typer.Option(help="An image in place of the text; a runner must be there.")] = None,
    task: Annotated[str | None, typer.Option(help="A task whose text or image is tried again.")] = None,
    lists: Annotated[
        list[str] | None, typer.Option("--list", help="A published list, more than once for more.")
    ] = None,
    draft: Annotated[str | None, typer.Option(help="A list whose draft is tried.")] = None,
) -> Shown:
    """Show what lists, or a draft, find in a text or an image; without --list and --draft the default lists."""
    if sum(given is not None for given in (text, image, task)) != 1:
        raise InvalidRequest("give one of: a text, --image, --task")
    path = "/api/word-lists/test"
    if image is not None:
        fields = {"word_lists": ",".join(lists or ()), "draft": draft or ""}
        found = await api.form(path, "image", image, fields)
    else:
        wanted = contents_of(Path("-")).decode(errors="replace") if text == "-" else text
        given = {"text": wanted, "task_id": task, "word_lists": lists or None, "draft": draft}
        found = await api.post(path, {name: value for name, value in given.items() if value is not None})
    if found["state"] not in {None, "succeeded"}:
        return Shown(found, [f"not read yet: ask again with --task {found['task_id']}"])
    rows = [
        [hit["word"], hit["matched"], hit["level"], hit["category"], _version(hit["list"]), how]
        for hits, how in ((found["hits"], None), (found["shadow_hits"], "shadow"))
        for hit in hits
    ]
    judged = ", ".join(map(_version, found["judged_by"])) or "no list"
    lines = table(["WORD", "MATCHED", "LEVEL", "CATEGORY", "LIST", "MODE"], rows) if rows else ["nothing was found"]
    return Shown(found, [*lines, f"searched by {judged}"])


def _published(answer: dict[str, Any]) -> Shown:
    mode = ", in shadow mode" if answer["shadow"] else ""
    return Shown(answer, [f"{answer['id']} is at version {answer['version']}, {answer['word_count']} words{mode}"])


def _remarks(report: dict[str, Any], kind: str) -> list[str]:
    told = [f"line {one['line']}: {kind}: {cell(one['detail'])}" for one in report[f"{kind}s"][:_MOST_TOLD]]
    more = report[f"{kind}_count"] - len(told)
    return [*told, f"and {more} more {kind}s"] if more else told


def _version(version: dict[str, Any]) -> str:
    return f"{version['id']} v{version['version']}" if version["version"] else f"{version['id']} (draft)"


def _word(word: dict[str, Any]) -> str:
    facts = [f"{word['category']} {word['level']}", word["mode"], "allowed" if word["allow"] else None]
    facts += [f"tags {', '.join(word['tags'])}" if word["tags"] else None]
    facts += [f"shown as {word['replacement']!r}" if word["replacement"] is not None else None]
    return cell(f"{word['text']}  ({'; '.join(filter(None, facts))})")
