"""Makes a request a `Submission`: right in itself, with everything checked that needs no store."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from detectsched.api.bodies import (
    Calculate,
    CalculateForm,
    Handle,
    HandleText,
    ImageForm,
    Submit,
    SubmitImage,
    SubmitText,
)
from detectsched.api.cost import image_cost, payload_cost, text_cost
from detectsched.clock import utc_now
from detectsched.engines.catalog import engine_names
from detectsched.errors import InvalidRequest, MalformedRequest, TooLarge, UnsupportedMedia
from detectsched.ocr.formats import BadImage
from detectsched.ocr.frames import chosen_frames
from detectsched.ocr.inspect import ImageFacts, inspect_image
from detectsched.settings import Settings
from detectsched.task import ENGINE_OCR, LANE_OCR, LANE_TEXT, QueueId, TaskKind, normalise_mac, normalise_object
from detectsched.webhooks.targets import checked_url, guard_of

_LONGEST_NAME: Final = 255
_ENGINE_PDF: Final = "pdf"
_OPAQUE: Final = "application/octet-stream"
_FURTHEST: Final = timedelta(days=30)
"""How far ahead a task may be delayed: it counts as waiting all the while."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A file, for an engine; of an image the header has been looked at."""

    data: bytes
    sha256: bytes
    media_type: str
    file_name: str | None


@dataclass(frozen=True, slots=True)
class Submission:
    """A task as its sender wants it; ``text``, or ``payload`` and ``engine``, are set.

    ``word_lists`` None means the object's own lists, else the tenant's default lists; ``ttl_seconds`` None the default.
    A ``not_before`` that has passed means now.
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
    payload: Payload | None = None
    engine: str | None = None
    object_name: str | None = None
    image_url: str | None = None
    file_name: str | None = None
    callback_url: str | None = None

    def digest(self) -> bytes:
        """Return what tells this request from another one under the same Idempotency-Key (SHA-256)."""
        if self.image_url is not None:
            # The request, not what is there today: sent again it is the same.
            payload = hashlib.sha256(b"image_url:" + self.image_url.encode()).digest()
        else:
            payload = self.payload.sha256 if self.payload else hashlib.sha256((self.text or "").encode()).digest()
        # A set of lists: their order means nothing.
        lists = None if self.word_lists is None else sorted(self.word_lists)
        wanted: list[object] = [self.kind, self.lane, self.mac, self.object, lists, self.ttl_seconds, payload.hex()]
        if self.not_before is not None:
            wanted.append(self.not_before.timestamp())
        if self.kind is TaskKind.CALCULATE:
            wanted.append(self.engine)
        if self.callback_url is not None:
            wanted.append(self.callback_url)
        return hashlib.sha256(json.dumps(wanted).encode()).digest()


class Intake:
    """Knows the limits, the lanes and the engines.

    The engines are those of the API's own installation: an engine is installed there and with the runners.
    """

    def __init__(self, settings: Settings) -> None:
        self._engines = engine_names()
        self._limits = settings.api
        self._ocr = settings.ocr
        self._lanes = settings.lanes
        self._guard = guard_of(settings.webhooks)

    @property
    def known_names(self) -> dict[str, tuple[str, ...]]:
        """The names that requests may give, by their component in the OpenAPI document."""
        return {
            "LaneName": self._lanes,
            "EngineLaneName": tuple(lane for lane in self._lanes if lane != LANE_TEXT),
            "EngineName": tuple(self._engines),
        }

    def text(self, tenant: str, body: SubmitText | HandleText, key: str | None) -> Submission:
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

    def json_image(self, tenant: str, body: SubmitImage, key: str | None) -> Submission:
        """Return the submission of an image that came inside JSON; slow enough for a thread.

        One by URL has neither payload nor cost yet: `with_image` gives it both.

        Raises:
            InvalidRequest: there is no image, there are two, or images by URL are not taken.
            MalformedRequest: not base64.
            RequestRefused: as `image`.
        """
        if (body.image is None) == (body.image_url is None):
            found = "neither" if body.image is None else "both"
            raise InvalidRequest(f"give exactly one of image and image_url; there is {found}", field="image")
        if body.image is not None:
            return self.image(tenant, body, _decoded(body.image, "image"), body.file_name, key)
        if not self._limits.image_url:
            raise InvalidRequest("images by URL are not taken here: send the image itself", field="image_url")
        submission = self._submission(tenant, TaskKind.IMAGE, body, key, cost=1.0, engine=ENGINE_OCR)
        return replace(submission, image_url=body.image_url, file_name=body.file_name)

    def with_image(self, submission: Submission, data: bytes, *, field: str) -> Submission:
        """Return a submission with the image that was fetched for it; slow enough for a thread.

        Raises:
            RequestRefused: as `image`.
        """
        payload, cost = self._inspected(ENGINE_OCR, data, submission.file_name, field=field)
        return replace(submission, payload=payload, cost=cost)

    def image(
        self, tenant: str, body: SubmitImage | ImageForm, data: bytes, file_name: str | None, key: str | None
    ) -> Submission:
        """Return an image's submission; its header is read, its pixels are not. Slow enough for a thread.

        Raises:
            InvalidRequest: one of the fields is wrong, or a side is too short.
            TooLarge: the file, or its width times height.
            UnsupportedMedia: not an image that is read.
        """
        payload, cost = self._inspected(ENGINE_OCR, data, file_name, field="image")
        return self._submission(tenant, TaskKind.IMAGE, body, key, cost=cost, payload=payload, engine=ENGINE_OCR)

    def base64_payload(self, tenant: str, body: Calculate, key: str | None) -> Submission:
        """Return the submission of a payload that came inside JSON; slow enough for a thread.

        Raises:
            MalformedRequest: not base64.
            RequestRefused: as `calculation`.
        """
        return self.calculation(tenant, body, _decoded(body.payload, "payload"), body.file_name, key)

    def calculation(
        self, tenant: str, body: Calculate | CalculateForm, data: bytes, file_name: str | None, key: str | None
    ) -> Submission:
        """Return the submission of a payload for a named engine; slow enough for a thread.

        Raises:
            InvalidRequest: one of the fields is wrong, or there is no such engine.
            TooLarge: the payload, or an image's width times height.
            UnsupportedMedia: not what the engine reads, as far as its first bytes tell.
        """
        if body.engine not in self._engines:
            known = ", ".join(self._engines)
            raise InvalidRequest(f"there is no engine {body.engine!r}; the engines are: {known}", field="engine")
        payload, cost = self._inspected(body.engine, data, file_name, field="payload")
        return self._submission(tenant, TaskKind.CALCULATE, body, key, cost=cost, payload=payload, engine=body.engine)

    def _inspected(self, engine: str, data: bytes, file_name: str | None, *, field: str) -> tuple[Payload, float]:
        most = self._limits.max_image_bytes
        if len(data) > most:
            raise TooLarge(f"the {field} has {len(data)} bytes; at most {most} are taken", field=field)
        media_type, cost = _OPAQUE, payload_cost(len(data))
        if engine == ENGINE_OCR:
            facts = inspect_image(data, max_pixels=self._limits.max_image_pixels, field=field)
            media_type, cost = facts.media_type, self._frames_of(facts) * image_cost(facts.width, facts.height)
        elif engine == _ENGINE_PDF:
            # Readers take a PDF that begins anywhere in its first kilobyte.
            if b"%PDF-" not in data[:1024]:
                raise UnsupportedMedia("this is not a PDF, which the engine 'pdf' reads", field=field)
            media_type = "application/pdf"
        elif not data:
            raise InvalidRequest(f"the {field} is empty", field=field)
        return Payload(data, hashlib.sha256(data).digest(), media_type, _shown(file_name)), cost

    def _frames_of(self, facts: ImageFacts) -> int:
        """Return how many frames or pages will be read."""
        if facts.format == "JPEG":
            return 1
        try:
            chosen = chosen_frames(
                facts.frames,
                facts.width * facts.height,
                policy=self._ocr.frames,
                most=self._ocr.max_frames,
                max_pixels=self._limits.max_image_pixels,
            )
        except BadImage:
            # The runner says so, in the task's own words; here it is accepted like every image that cannot be read.
            return 1
        return len(chosen)

    def _submission(
        self,
        tenant: str,
        kind: TaskKind,
        body: Submit | Handle,
        key: str | None,
        *,
        cost: float,
        text: str | None = None,
        payload: Payload | None = None,
        engine: str | None = None,
    ) -> Submission:
        lane = self._lane(kind, body.lane)
        address = body.mac if isinstance(body, Submit) else None
        if (address is None) == (body.object is None):
            found = "neither" if address is None else "both"
            raise InvalidRequest(f"give exactly one of mac and object; there is {found}", field="mac")
        mac = None if address is None else normalise_mac(address)
        name = None if body.object is None else normalise_object(body.object)
        queue = QueueId.of_object(tenant, name) if name is not None else QueueId.of_device(tenant, lane, mac or "")
        lists = None if body.word_lists is None else tuple(dict.fromkeys(body.word_lists))
        if body.not_before is not None and body.not_before > utc_now() + _FURTHEST:
            raise InvalidRequest(f"not_before is more than {_FURTHEST.days} days ahead", field="not_before")
        callback = None
        if body.callback_url is not None:
            callback = checked_url(body.callback_url, self._guard, field="callback_url")
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
            payload=payload,
            engine=engine,
            object_name=body.object,
            callback_url=callback,
        )

    def _lane(self, kind: TaskKind, named: str | None) -> str:
        lane = named or (LANE_TEXT if kind is TaskKind.TEXT else LANE_OCR)
        if lane not in self._lanes:
            raise InvalidRequest(f"there is no lane {lane!r}; the lanes are: {', '.join(self._lanes)}", field="lane")
        if kind is not TaskKind.TEXT and lane == LANE_TEXT:
            raise InvalidRequest("the runners of the text lane have no engines: leave lane out", field="lane")
        return lane


def _decoded(text: str, field: str) -> bytes:
    """Return what stands in base64.

    Raises:
        MalformedRequest: it is something else.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        hint = "leave out the 'data:…,' in front" if text.startswith("data:") else str(error)
        raise MalformedRequest(
            f"the {field} is not base64 of the standard alphabet, padded and without line breaks: {hint}", field=field
        ) from None


def _shown(file_name: str | None) -> str | None:
    """Return a file name as it may be stored and shown: no path, no control characters, not too long."""
    if file_name is None:
        return None
    name = "".join(character for character in file_name if character.isprintable())
    return name.replace("\\", "/").rpartition("/")[2][:_LONGEST_NAME] or None
