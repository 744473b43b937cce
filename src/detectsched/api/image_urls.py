"""Images that are given by their URL: fetched on the accept path, before anything is promised.

Why here and not in the runners: docs/decisions/0013-images-by-url.md.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Final

from detectsched.api.intake import Intake, Submission
from detectsched.net.fetch import Fetcher
from detectsched.net.guard import Guard
from detectsched.settings import ApiSettings

FIELD: Final = "image_url"


class ImageUrls:
    """``fetcher`` is made from the settings unless it is given."""

    def __init__(self, settings: ApiSettings, intake: Intake, fetcher: Fetcher | None = None) -> None:
        self._intake = intake
        self._fetcher = fetcher or Fetcher(
            Guard(networks=tuple(map(ipaddress.ip_network, settings.image_url_networks))),
            most_bytes=settings.max_image_bytes,
            seconds=settings.image_url_seconds,
            at_once=settings.image_url_at_once,
        )

    async def fetched(self, submission: Submission) -> Submission:
        """Return a submission with its image.

        Raises:
            ForbiddenTarget: the URL leads where requests must not go.
            InvalidRequest: there is no image, or none in time.
            TooLarge: the file, or its width times height.
            UnsupportedMedia: what is there is no image that is read, whatever it is called there.
        """
        url = submission.image_url
        if url is None or submission.payload is not None:
            return submission
        data = await self._fetcher.fetch(url, field=FIELD)
        return await asyncio.to_thread(self._intake.with_image, submission, data, field=FIELD)
