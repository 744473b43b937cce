"""What every blob store promises, shown on each kind; and what only files can get wrong."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from obstore.store import LocalStore, MemoryStore

from detectsched.errors import BlobMissing, ConfigurationError, PayloadRejected, StoreUnavailable
from detectsched.settings import BlobSettings
from detectsched.storage.blobs import BlobStore, open_blobs
from detectsched.storage.keys import blob_key, check_key
from detectsched.storage.local import LocalBlobs
from detectsched.storage.remote import RemoteBlobs

KEY = "default/2026/11/30/01890000-0000-7000-8000-000000000000"


@pytest.fixture(params=["local", "memory", "object store"])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BlobStore]:
    """Give a store of each kind."""
    stores: dict[str, Callable[[], BlobStore]] = {
        "local": lambda: LocalBlobs(tmp_path / "blobs"),
        "memory": lambda: RemoteBlobs(MemoryStore()),
        "object store": lambda: RemoteBlobs(LocalStore(tmp_path / "objects", mkdir=True)),
    }
    store = stores[request.param]()
    yield store
    await store.close()


async def test_a_blob_comes_back_as_it_was_put(blobs: BlobStore) -> None:
    """Put, replace, get, delete; a second delete is no error."""
    data = os.urandom(300_000)
    await blobs.put(KEY, b"before")
    await blobs.put(KEY, data)
    assert await blobs.get(KEY) == data
    await blobs.delete(KEY)
    await blobs.delete(KEY)
    with pytest.raises(BlobMissing):
        await blobs.get(KEY)


async def test_a_missing_blob_fails_its_task_for_good(blobs: BlobStore) -> None:
    """What is missing is told apart from a store that is away, in the words that a runner acts on."""
    with pytest.raises(PayloadRejected) as caught:
        await blobs.get(KEY)
    assert caught.value.reason == "blob_missing"


@pytest.mark.parametrize("key", ["../secret", "a/../../b", "/etc/passwd", "a//b", "", "a/\0", "a/.hidden", "a/b/"])
async def test_no_key_leads_out_of_the_store(blobs: BlobStore, key: str) -> None:
    """Traversal is refused by every method."""
    for call in (blobs.get(key), blobs.delete(key), blobs.put(key, b"x")):
        with pytest.raises(ValueError, match="not a blob key"):
            await call


async def test_many_may_write_one_key(blobs: BlobStore) -> None:
    """Concurrent puts of one key leave one of them, whole."""
    await asyncio.gather(*(blobs.put(KEY, bytes([number]) * 50_000) for number in range(12)))
    data = await blobs.get(KEY)
    assert len(data) == 50_000
    assert len(set(data)) == 1


def test_a_key_names_tenant_and_day() -> None:
    """The key is the one documented, and a valid one."""
    key = blob_key("default", UUID("01890000-0000-7000-8000-000000000000"), datetime(2026, 11, 30, tzinfo=UTC))
    assert check_key(key) == KEY


async def test_a_file_is_synced_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes reach the disk, then the name; then the directory, and each new directory's entry in its parent."""
    steps: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().relative_to(tmp_path).as_posix()}")
        real_fsync(descriptor)

    def replace(self: Path, target: Path) -> Path:
        steps.append("rename")
        return real_replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    store = LocalBlobs(tmp_path / "blobs")
    await store.put("t/day/one", b"1")
    await store.put("t/day/two", b"2")
    await store.close()
    kinds = ["sync file" if step.endswith(".tmp") else step for step in steps]
    assert kinds == [
        "sync blobs",
        "sync blobs/t",
        *["sync file", "rename", "sync blobs/t/day"] * 2,
    ]
    assert sorted(path.name for path in (tmp_path / "blobs/t/day").iterdir()) == ["one", "two"]
    assert (tmp_path / "blobs/t/day/one").stat().st_mode & 0o077 == 0


async def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails is an outage, not a half file."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = LocalBlobs(tmp_path / "blobs")
    await store.put(KEY, b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        await store.put(KEY, b"new")
    monkeypatch.undo()
    assert await store.get(KEY) == b"old"
    assert [path.name for path in (tmp_path / "blobs" / KEY).parent.iterdir()] == [KEY.rsplit("/", 1)[1]]
    await store.close()


async def test_a_directory_that_vanished_is_away_not_empty(tmp_path: Path) -> None:
    """Without its root (an unmounted volume) no blob counts as missing; and a removed day is made again."""
    store = LocalBlobs(tmp_path / "blobs")
    await store.put(KEY, b"x")
    (tmp_path / "blobs").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreUnavailable):
        await store.get(KEY)
    with pytest.raises(StoreUnavailable):
        await store.put(KEY, b"x")
    (tmp_path / "blobs").mkdir()
    await store.put(KEY, b"again")
    assert await store.get(KEY) == b"again"
    await store.close()


async def test_an_s3_store_that_is_away_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens there: an outage in one line, without the client's inner state."""
    environment = {"ENDPOINT_URL": "http://127.0.0.1:1", "ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "y", "REGION": "z"}
    for name, value in environment.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    store = open_blobs(BlobSettings(url="s3://bucket/some/prefix"))
    for call in (store.put(KEY, b"x"), store.get(KEY), store.delete(KEY)):
        with pytest.raises(StoreUnavailable) as caught:
            await call
        assert "\n" not in caught.value.detail
    await store.close()


async def test_settings_choose_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every spelling of a directory, and words for what is no store."""
    monkeypatch.chdir(tmp_path)
    for url in ("file:data/blobs", f"file:{tmp_path}/data/blobs", f"file://{tmp_path}/data/blobs"):
        store = open_blobs(BlobSettings(url=url))
        await store.put(KEY, url.encode())
        assert (tmp_path / "data/blobs" / KEY).read_bytes() == url.encode()
        await store.close()
    (tmp_path / "a file").touch()
    for url in ("", "file:", "ftp://x", "s3://", "s3", f"file:{tmp_path}/a file/blobs"):
        with pytest.raises(ConfigurationError, match="DETECTSCHED_BLOBS_URL"):
            open_blobs(BlobSettings(url=url))
