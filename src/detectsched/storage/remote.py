"""Blobs in S3, or in anything that obstore reaches."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore, S3Store

from detectsched.errors import BlobMissing, ConfigurationError, StoreUnavailable
from detectsched.storage.keys import check_key

_CONNECT_TIMEOUT: Final = timedelta(seconds=3)
_REQUEST_TIMEOUT: Final = timedelta(seconds=30)
_RETRY_TIMEOUT: Final = timedelta(seconds=10)
"""A caller waits no longer for a store that is away: it is told 503, and knows better than we when to try again."""


def s3_store(url: str) -> ObjectStore:
    """Return the store of ``s3://BUCKET/PREFIX``; credentials, region and endpoint come from ``AWS_*``.

    Raises:
        ConfigurationError: the URL or the ``AWS_*`` variables cannot be used.
    """
    try:
        return S3Store.from_url(
            url,
            client_options={
                "connect_timeout": _CONNECT_TIMEOUT,
                "timeout": _REQUEST_TIMEOUT,
                # Plain HTTP is spoken only where AWS_ENDPOINT_URL says http://, as for a store on the same machine.
                "allow_http": True,
            },
            retry_config={"max_retries": 2, "retry_timeout": _RETRY_TIMEOUT},
        )
    except BaseError as error:
        raise ConfigurationError(f"DETECTSCHED_BLOBS_URL: {_words(error)}") from error


class RemoteBlobs:
    """S3 acknowledges a put when it is durable, and replaces objects whole."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def put(self, key: str, data: bytes) -> None:
        """Keep a blob."""
        try:
            # One request: of a multipart upload that breaks off, parts would stay and be paid for.
            await obstore.put_async(self._store, check_key(key), data, use_multipart=False)
        except (BaseError, OSError) as error:
            raise _away(error) from error

    async def get(self, key: str) -> bytes:
        """Return a blob."""
        try:
            answer = await obstore.get_async(self._store, check_key(key))
            return bytes(await answer.bytes_async())
        except FileNotFoundError as error:
            raise BlobMissing(f"the store has no {key}") from error
        except (BaseError, OSError) as error:
            raise _away(error) from error

    async def delete(self, key: str) -> None:
        """Forget a blob."""
        try:
            await obstore.delete_async(self._store, check_key(key))
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise _away(error) from error

    async def close(self) -> None:
        """Nothing to do: the store's connections end with it."""


def _away(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(f"the blob store cannot be used: {_words(error)}")


def _words(error: Exception) -> str:
    """Return what obstore says without the dump of its inner state that follows."""
    return str(error).split("\n", 1)[0].strip()
