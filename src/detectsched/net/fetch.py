"""Downloads a file from a URL that a stranger chose: guarded, capped in size and in time."""

from __future__ import annotations

import asyncio

import httpx

from detectsched.errors import ForbiddenTarget, InvalidRequest, TooLarge
from detectsched.net.guard import Guard


class Fetcher:
    """Downloads files, at most ``at_once`` at a time.

    Args:
        guard: decides where requests may go.
        most_bytes: largest file.
        seconds: longest time for one file, from waiting for a free place to its last byte.
        at_once: downloads under way at the same time; the others wait.
        verify: whether certificates are checked.
    """

    def __init__(
        self, guard: Guard, *, most_bytes: int, seconds: float, at_once: int = 16, verify: bool = True
    ) -> None:
        self._guard = guard
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._places = asyncio.Semaphore(at_once)
        self._verify = verify

    async def fetch(self, url: str, *, field: str) -> bytes:
        """Return the file; what the other side calls it is not believed, so look at its content.

        Raises:
            ForbiddenTarget: the URL leads where requests must not go.
            TooLarge: the file.
            InvalidRequest: no such file, a redirect, no answer in time, a broken transfer.
        """
        try:
            self._guard.check_url(url)
            async with asyncio.timeout(self._seconds), self._places:
                return await self._download(url, field)
        except ForbiddenTarget as error:
            error.field = field
            raise
        except TimeoutError:
            raise InvalidRequest(f"the URL was not downloaded within {self._seconds:g} s", field=field) from None
        except (httpx.HTTPError, OSError) as error:
            # The kind only: the message of a failed connection tells of our network.
            kind = type(error).__name__
            raise InvalidRequest(f"the URL could not be downloaded ({kind}): is it reachable?", field=field) from None

    async def _download(self, url: str, field: str) -> bytes:
        # Compressed transfers are refused: a kilobyte of them may be a gigabyte.
        headers = {"Accept": "image/*", "Accept-Encoding": "identity", "User-Agent": "detectsched"}
        async with (
            self._guard.client(timeout_seconds=self._seconds, verify=self._verify) as client,
            client.stream("GET", url, headers=headers) as answer,
        ):
            if answer.status_code != 200:
                hint = ": redirects are not followed, give the final URL" if answer.is_redirect else ""
                raise InvalidRequest(f"the URL answered with status {answer.status_code}{hint}", field=field)
            if answer.headers.get("content-encoding", "identity").lower() != "identity":
                raise InvalidRequest("the URL answered with a compressed transfer, which is not taken", field=field)
            announced = answer.headers.get("content-length", "")
            if announced.isdecimal() and int(announced) > self._most_bytes:
                raise self._too_large(field)
            data = bytearray()
            async for chunk in answer.aiter_raw():
                data += chunk
                if len(data) > self._most_bytes:
                    raise self._too_large(field)
            return bytes(data)

    def _too_large(self, field: str) -> TooLarge:
        return TooLarge(f"the file has more than {self._most_bytes} bytes: compress it", field=field)
