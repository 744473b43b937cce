"""Makes a request a `Submission`: right in itself, with everything checked that needs no store."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from detectsched.api.bodies import ImageForm, Submit, SubmitImage, SubmitText
from detectsched.api.cost import image_cost, text_cost
from detectsched.clock import utc_now
from detectsched.errors import InvalidRequest, MalformedRequest, TooLarge
from detectsched.ocr.inspect import inspect_image
from detectsched.settings import Settings
from detectsched.task import LANE_OCR, LANE_TEXT, QueueId, TaskKind, normalise_mac, normalise_object

_LONGEST_NAME: Final = 255
_FURTHEST: Final = timedelta(days=30)
"""How far ahead a task may be delayed: it counts as waiting all the while."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image whose header has been looked at."""

    data: bytes
    sha256: bytes
    media_type: str
    file_name: str | None


@dataclass(frozen=True, slots=True)
class Submission:
    """A task as its sender wants it; ``text`` or ``image`` is set.

    ``word_lists`` None means the tenant's default lists, ``ttl_seconds`` None the default. A ``not_before`` that has
    passed means now.
    """

    tenant: str
    kind: TaskKind
    lane: str
    queue: QueueId
    mac: str | None
    object: str | None
    word_lists: tuple[str, ...] | None
    ttl_seconds: int | None
    cost: float
    idempotency_key: str | None
    not_before: datetime | None = None
    text: str | None = None
    image: Image | None = None

    def digest(self) -> bytes:
        """Return what tells this request from another one under the same Idempotency-Key (SHA-256)."""
        payload = self.image.sha256 if self.image else hashlib.sha256((self.text or "").encode()).digest()
        # A set of lists: their order means nothing.
        lists = None if self.word_lists is None else sorted(self.word_lists)
        wanted: list[object] = [self.kind, self.lane, self.mac, self.object, lists, self.ttl_seconds, payload.hex()]
        if self.not_before is not None:
            wanted.append(self.not_before.timestamp())
        return hashlib.sha256(json.dumps(wanted).encode()).digest()


class Intake:
    """Knows the limits and the lanes."""

    def __init__(self, settings: Settings) -> None:
        self._limits = settings.api
        self._lanes = settings.lanes

    def text(self, tenant: str, body: SubmitText, key: str | None) -> Submission:
        """Return a text's submission.

        Raises:
            InvalidRequest: one of its fields is wrong.
            TooLarge: the text.
        """
        if "\0" in body.text:
            raise InvalidRequest("the text contains U+0000, which cannot be stored: take it out", field="text")
        size, most = len(body.text.encode()), self._limits.max_text_bytes
        if size > most:
            raise TooLarge(f"the text has {size} bytes of UTF-8; at most {most} are taken: split it", field="text")
        return self._submission(tenant, TaskKind.TEXT, body, key, cost=text_cost(body.text), text=body.text)

    def base64_image(self, tenant: str, body: SubmitImage, key: str | None) -> Submission:
        """Return the submission of an image that came inside JSON; slow enough for a thread.

        Raises:
            MalformedRequest: not base64.
            RequestRefused: as `image`.
        """
        try:
            data = base64.b64decode(body.image, validate=True)
        except (binascii.Error, ValueError) as error:
            hint = "leave out the 'data:…,' in front" if body.image.startswith("data:") else str(error)
            raise MalformedRequest(
                f"the image is not base64 of the standard alphabet, padded and without line breaks: {hint}",
                field="image",
            ) from None
        return self.image(tenant, body, data, body.file_name, key)

    def image(
        self, tenant: str, body: SubmitImage | ImageForm, data: bytes, file_name: str | None, key: str | None
    ) -> Submission:
        """Return an image's submission; its header is read, its pixels are not. Slow enough for a thread.

        Raises:
            InvalidRequest: one of the fields is wrong, or a side is too short.
            TooLarge: the file, or its width times height.
            UnsupportedMedia: not an image that is read.
        """
        most = self._limits.max_image_bytes
        if len(data) > most:
            raise TooLarge(f"the image has {len(data)} bytes; at most {most} are taken: compress it", field="image")
        facts = inspect_image(data, max_pixels=self._limits.max_image_pixels)
        image = Image(data, hashlib.sha256(data).digest(), facts.media_type, _shown(file_name))
        cost = image_cost(facts.width, facts.height)
        return self._submission(tenant, TaskKind.IMAGE, body, key, cost=cost, image=image)

    def _submission(
        self,
        tenant: str,
        kind: TaskKind,
        body: Submit,
        key: str | None,
        *,
        cost: float,
        text: str | None = None,
        image: Image | None = None,
    ) -> Submission:
        lane = self._lane(kind, body.lane)
        if (body.mac is None) == (body.object is None):
            found = "neither" if body.mac is None else "both"
            raise InvalidRequest(f"give exactly one of mac and object; there is {found}", field="mac")
        mac = None if body.mac is None else normalise_mac(body.mac)
        name = None if body.object is None else normalise_object(body.object)
        queue = QueueId.of_object(tenant, name) if name is not None else QueueId.of_device(tenant, lane, mac or "")
        lists = None if body.word_lists is None else tuple(dict.fromkeys(body.word_lists))
        if body.not_before is not None and body.not_before > utc_now() + _FURTHEST:
            raise InvalidRequest(f"not_before is more than {_FURTHEST.days} days ahead", field="not_before")
        return Submission(
            tenant,
            kind,
            lane,
            queue,
            mac,
            name,
            lists,
            body.ttl_seconds,
            cost,
            key,
            not_before=body.not_before,
            text=text,
            image=image,
        )

    def _lane(self, kind: TaskKind, named: str | None) -> str:
        lane = named or (LANE_OCR if kind is TaskKind.IMAGE else LANE_TEXT)
        if lane not in self._lanes:
            raise InvalidRequest(f"there is no lane {lane!r}; the lanes are: {', '.join(self._lanes)}", field="lane")
        if kind is TaskKind.IMAGE and lane == LANE_TEXT:
            raise InvalidRequest("the runners of the text lane cannot read images: leave lane out", field="lane")
        return lane


def _shown(file_name: str | None) -> str | None:
    """Return a file name as it may be stored and shown: no path, no control characters, not too long."""
    if file_name is None:
        return None
    name = "".join(character for character in file_name if character.isprintable())
    return name.replace("\\", "/").rpartition("/")[2][:_LONGEST_NAME] or None
