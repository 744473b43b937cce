"""Everything that can go wrong, as one tree; an HTTP status is attached once, here.

::

    DetectschedError                      500 internal
    ├── ConfigurationError                500 configuration      a setting, an option or an installation is wrong
    ├── SealBroken                        500 sealed             what is encrypted at rest cannot be opened here
    ├── StoreUnavailable                  503 unavailable        PostgreSQL, Redis or the blob store is away
    │   ├── GenerationLost                503 rebuilding         Redis lost its data, or lives another life now
    │   └── StoreDamaged                  503 unavailable        Redis holds what nothing of ours has written
    ├── RequestRefused
    │   ├── InvalidRequest                422 invalid_request    a field is missing or wrong
    │   │   ├── ForbiddenTarget           422 invalid_request    a URL leads where requests must not go
    │   │   └── MalformedRequest          400 malformed          the body cannot be parsed at all
    │   ├── DecryptionRefused             400 decryption_failed  an encrypted request; why, callers are not told
    │   ├── Unauthenticated               401 unauthenticated
    │   ├── Forbidden                     403 forbidden          the key lacks the scope
    │   ├── NotFound                      404 not_found          also for what belongs to another tenant
    │   ├── Conflict                      409 conflict
    │   │   └── IdempotencyMismatch       409 idempotency_mismatch
    │   ├── TooLarge                      413 too_large
    │   ├── UnsupportedMedia              415 unsupported_media
    │   ├── DeviceOverloaded              429 device_overloaded  "you": this device's backlog is full
    │   └── SystemOverloaded              503 system_overloaded  "us": the whole backlog is full
    └── TaskFailed                        how one try at a task ended badly (never an HTTP answer)
        ├── PayloadRejected               for good: the payload cannot be examined
        │   └── BlobMissing               the blob store works and does not have it
        └── EngineFailed                  for now: crash, time-out, out of memory
            ├── EngineUnavailable         there was no engine to try it with: costs no attempt
            └── PoisonImage               it has crashed engines before: no other try
"""

from __future__ import annotations

from typing import ClassVar


class DetectschedError(Exception):
    """Root of the tree; ``code`` is stable and meant for programs, the message for people."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"
    title: ClassVar[str] = "Internal error"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class ConfigurationError(DetectschedError):
    """A setting, a command-line option or the installation is wrong; the message says what to change."""

    code = "configuration"
    title = "Wrong configuration"


class SealBroken(DetectschedError):
    """What is encrypted at rest cannot be opened: its master key is not in the settings, or it is damaged."""

    code = "sealed"
    title = "Encrypted data cannot be opened"


class StoreUnavailable(DetectschedError):
    """A store cannot be reached now; the same call may work later."""

    status = 503
    code = "unavailable"
    title = "Temporarily unavailable"

    def __init__(self, detail: str, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class StoreDamaged(StoreUnavailable):
    """Redis holds what nothing of ours has written: another type, no number; the queues are made anew without it."""


class GenerationLost(StoreUnavailable):
    """Redis does not hold the life of the data that the caller was told about; the gate is closed until a rebuild."""

    code = "rebuilding"
    title = "Queues are being rebuilt"


class RequestRefused(DetectschedError):
    """The caller's request is answered with a 4xx (or an overload) problem."""

    def __init__(self, detail: str, *, field: str | None = None) -> None:
        super().__init__(detail)
        self.field = field


class InvalidRequest(RequestRefused):
    """A field is missing, wrong or unknown."""

    status = 422
    code = "invalid_request"
    title = "Invalid request"


class ForbiddenTarget(InvalidRequest):
    """A URL that a stranger chose leads where requests must not go: into our own network, or not over HTTPS."""


class MalformedRequest(InvalidRequest):
    """The body cannot be parsed: not JSON, not multipart, bad base64."""

    status = 400
    code = "malformed"
    title = "Malformed request"


class DecryptionRefused(RequestRefused):
    """An encrypted request cannot be opened; all reasons look the same, ``reason`` is for operators."""

    status = 400
    code = "decryption_failed"
    title = "Encrypted request refused"

    def __init__(self, reason: str) -> None:
        super().__init__(
            "the encrypted request cannot be opened: check its key (kid), algorithms, audience, times and that it came "
            "whole, as docs/encryption.md says"
        )
        self.reason = reason


class Unauthenticated(RequestRefused):
    """No API key, or one that is unknown, expired or revoked; all look the same to the caller."""

    status = 401
    code = "unauthenticated"
    title = "Not authenticated"


class Forbidden(RequestRefused):
    """The key is good but lacks the scope of the route."""

    status = 403
    code = "forbidden"
    title = "Not allowed"


class NotFound(RequestRefused):
    """Nothing of that name in the caller's tenant."""

    status = 404
    code = "not_found"
    title = "Not found"


class Conflict(RequestRefused):
    """The state of the thing does not allow it."""

    status = 409
    code = "conflict"
    title = "Conflict"


class IdempotencyMismatch(Conflict):
    """The same Idempotency-Key came with another request."""

    code = "idempotency_mismatch"
    title = "Idempotency-Key used for another request"


class TooLarge(RequestRefused):
    """More bytes, pixels or lines than the limit."""

    status = 413
    code = "too_large"
    title = "Too large"


class UnsupportedMedia(RequestRefused):
    """Not an image, or of a format that is not read."""

    status = 415
    code = "unsupported_media"
    title = "Unsupported media type"


class Overloaded(RequestRefused):
    """Refused for load; ``retry_after`` is in whole seconds."""

    def __init__(self, detail: str, *, retry_after: int) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class DeviceOverloaded(Overloaded):
    """The device has too much waiting."""

    status = 429
    code = "device_overloaded"
    title = "Device backlog is full"


class SystemOverloaded(Overloaded):
    """The system as a whole has too much waiting."""

    status = 503
    code = "system_overloaded"
    title = "System backlog is full"


class TaskFailed(DetectschedError):
    """One try at a task ended without a result; ``reason`` is a stable word."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class PayloadRejected(TaskFailed):
    """The payload can never be examined (undecodable image): the task is ``failed`` at once."""


class BlobMissing(PayloadRejected):
    """The blob store works, and has nothing under this key; no later try would find it."""

    def __init__(self, detail: str) -> None:
        super().__init__("blob_missing", detail)


class EngineFailed(TaskFailed):
    """The engine broke this time (crash, time-out, out of memory): the task is tried again."""


class EngineUnavailable(EngineFailed):
    """No engine could be had: not the task's doing, so it is given back and no attempt is spent."""

    def __init__(self, detail: str) -> None:
        super().__init__("engine_unavailable", detail)


class PoisonImage(EngineFailed):
    """The very same image has crashed engines before: the task is ``dead`` at once, and kept for study."""

    def __init__(self, detail: str) -> None:
        super().__init__("poison", detail)
