"""Commands that call the HTTP API of a running system: where it is, whose key is shown, how answers are written."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from detectsched.cli.output import Output, Shown
from detectsched.errors import ConfigurationError

_KEY_FILE: Final = "admin.key"
"""Where `up` keeps the first key, in its data directory."""

Url = Annotated[str, typer.Option(envvar="DETECTSCHED_URL", help="Where the API answers.")]
Key = Annotated[
    str | None,
    typer.Option(envvar="DETECTSCHED_KEY", help="API key; without it that of `up` is taken from --data."),
]
Data = Annotated[Path, typer.Option(help="Data directory of `up`, for its key.")]
Format = Annotated[Output, typer.Option("--output", "-o", help="table for people, json for programs.")]


class Api:
    """The HTTP API, as one command uses it; nothing is tried twice, since a person can do that."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def get(self, path: str, **params: Any) -> dict[str, Any]:
        """Read something; parameters that are None are left out."""
        return await self._call("GET", path, params=_given(params))

    async def post(self, path: str, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Do something."""
        return await self._call("POST", path, **({} if document is None else {"json": document}))

    async def upload(self, path: str, data: bytes, media_type: str, **params: Any) -> dict[str, Any]:
        """Send a file as the body; parameters that are None are left out."""
        headers = {"Content-Type": media_type}
        return await self._call("POST", path, content=data, headers=headers, params=_given(params))

    async def form(self, path: str, name: str, file: Path, fields: Mapping[str, str]) -> dict[str, Any]:
        """Send a file as a part of a form."""
        files = {name: (file.name, contents_of(file), "application/octet-stream")}
        return await self._call("POST", path, files=files, data=dict(fields))

    async def patch(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Change something."""
        return await self._call("PATCH", path, json=document)

    async def delete(self, path: str) -> dict[str, Any]:
        """End something."""
        return await self._call("DELETE", path)

    async def pages(self, path: str, *, limit: int, most: int, **params: Any) -> list[dict[str, Any]]:
        """Read up to ``limit`` items of a list, in pages of at most ``most``."""
        items: list[dict[str, Any]] = []
        cursor = None
        while len(items) < limit:
            page = await self.get(path, cursor=cursor, limit=min(most, limit - len(items)), **params)
            items += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        return items

    async def _call(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await self._client.call(method, path, **request)
        return answer


def part(name: object) -> str:
    """Return a name as a part of a path."""
    return quote(str(name), safe="")


def contents_of(file: Path) -> bytes:
    """Return what a file holds; ``-`` is standard input.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror or error}") from error


def remote(command: Callable[..., Awaitable[Shown]]) -> Callable[..., None]:
    """Make a command of a coroutine function that takes an `Api` before its own arguments and options."""
    signature = inspect.signature(command, eval_str=True)
    _, *own = signature.parameters.values()

    @functools.wraps(command)
    def run(*, url: str, key: str | None, data: Path, output: Output, **given: Any) -> None:
        import asyncio

        from detectsched.client import Client

        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"{url!r} is no address of an API: it begins with http:// or https://")
        chosen = key or _kept_key(data)

        async def call() -> Shown:
            async with Client(url, chosen, tries=1) as client:
                return await command(Api(client), **given)

        typer.echo(asyncio.run(call()).render(output))

    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter("url", keyword, annotation=Url, default="http://127.0.0.1:8080"),
        inspect.Parameter("key", keyword, annotation=Key, default=None),
        inspect.Parameter("data", keyword, annotation=Data, default=Path("data")),
        inspect.Parameter("output", keyword, annotation=Format, default=Output.TABLE),
    ]
    parameters = [*(parameter.replace(kind=keyword) for parameter in own), *shared]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _kept_key(data: Path) -> str:
    file = data / _KEY_FILE
    try:
        return file.read_text().strip()
    except OSError as error:
        raise ConfigurationError(
            "there is no API key: set DETECTSCHED_KEY, give --key, or say with --data where `up` keeps its own "
            f"({file}: {error.strerror or error})"
        ) from error
