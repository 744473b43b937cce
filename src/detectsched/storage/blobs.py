"""The seam between those who keep images and where they are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from detectsched.errors import ConfigurationError
from detectsched.settings import BlobSettings
from detectsched.storage.local import LocalBlobs
from detectsched.storage.remote import RemoteBlobs, s3_store


class BlobStore(Protocol):
    """Keeps whole files under keys made by `keys.blob_key`; safe to use from many tasks of one event loop."""

    async def put(self, key: str, data: bytes) -> None:
        """Keep a blob; when this returns it survives a crash. An existing one is replaced whole.

        Raises:
            StoreUnavailable: it may or may not be kept.
        """
        ...

    async def get(self, key: str) -> bytes:
        """Return a blob.

        Raises:
            BlobMissing: the store works and has no such blob.
            StoreUnavailable: the store is away.
        """
        ...

    async def delete(self, key: str) -> None:
        """Forget a blob; one that is not there is no error.

        Raises:
            StoreUnavailable: it may or may not be gone.
        """
        ...

    async def close(self) -> None:
        """Let go of threads and connections."""
        ...


def open_blobs(settings: BlobSettings) -> BlobStore:
    """Return the store that the settings name.

    Raises:
        ConfigurationError: an unknown kind of URL, or a directory that cannot be made.
    """
    scheme, colon, rest = settings.url.partition(":")
    if scheme == "file" and rest:
        # file:relative, file:/absolute and file:///absolute are all in use.
        return LocalBlobs(Path(rest.removeprefix("//")))
    if scheme == "s3" and colon:
        return RemoteBlobs(s3_store(settings.url))
    raise ConfigurationError(f"DETECTSCHED_BLOBS_URL: {settings.url!r} is neither file:PATH nor s3://BUCKET/PREFIX")
