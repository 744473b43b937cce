"""A container's limits, in files laid out as the kernel lays them out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from detectsched.cgroup import Cgroups, CpuLimit, MemoryLimit

UNLIMITED_V1 = 9223372036854771712


def cgroups(directory: Path, membership: str, files: Mapping[str, object]) -> Cgroups:
    """Lay out groups and this process's membership."""
    root = directory / "cgroup"
    root.mkdir()
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    (directory / "membership").write_text(membership)
    return Cgroups(root, directory / "membership")


def version_2(group: str, *, memory: object = 1000, cpu: str = "50000 100000") -> dict[str, object]:
    """Return the files of a group that uses 700 bytes, 100 of them cached, and 2.5 s of CPU time."""
    return {
        f"{group}memory.max": memory,
        f"{group}memory.current": 700,
        f"{group}memory.stat": "anon 500\ninactive_file 100\nactive_file 100",
        f"{group}cpu.max": cpu,
        f"{group}cpu.stat": "usage_usec 2500000\nuser_usec 1",
    }


def version_1(group: str, *, memory: object = 1000, quota: int = 50_000) -> dict[str, object]:
    """Return the same in version 1."""
    return {
        f"memory/{group}memory.limit_in_bytes": memory,
        f"memory/{group}memory.usage_in_bytes": 700,
        f"memory/{group}memory.stat": "inactive_file 1\ntotal_inactive_file 100",
        f"cpu/{group}cpu.cfs_quota_us": quota,
        f"cpu/{group}cpu.cfs_period_us": 100_000,
        f"cpuacct/{group}cpuacct.usage": 2_500_000_000,
    }


MEMBER_2 = "0::/pod/box\n"
MEMBER_1 = "5:memory:/pod/box\n4:cpu,cpuacct:/pod/box\n1:name=systemd:/\n"


@pytest.mark.parametrize(
    ("membership", "files", "group"),
    [
        ("0::/\n", version_2(""), "."),
        (MEMBER_2, version_2("pod/box/"), "pod/box"),
        (MEMBER_2, version_2(""), "."),
        ("0::/../../other\n", version_2(""), "."),
        ("4:cpu,cpuacct:/\n5:memory:/\n", version_1(""), "cpu"),
        (MEMBER_1, version_1("pod/box/"), "cpu/pod/box"),
        (MEMBER_1, version_1(""), "cpu"),
        (MEMBER_1 + "0::/\n", version_1("pod/box/"), "cpu/pod/box"),
    ],
    ids=["v2", "v2-host", "v2-host-path", "v2-outside", "v1", "v1-host", "v1-host-path", "hybrid"],
)
def test_limits_are_found(tmp_path: Path, membership: str, files: dict[str, object], group: str) -> None:
    """In a container with a namespace of its own, in one without, and on the host itself."""
    groups = cgroups(tmp_path, membership, files)
    assert groups.memory() == [MemoryLimit(1000, 600)]
    assert groups.cpu() == [CpuLimit(tmp_path / "cgroup" / group, cores=0.5, seconds=2.5)]


def test_a_limit_may_be_a_parents(tmp_path: Path) -> None:
    """Every group around us counts, the innermost first; the root of version 2 has no limits at all."""
    files = version_2("pod/box/", cpu="200000 100000") | version_2("pod/", memory=800) | {"cpu.stat": "usage_usec 1"}
    groups = cgroups(tmp_path, MEMBER_2, files)
    assert [limit.limit for limit in groups.memory()] == [1000, 800]
    assert [limit.cores for limit in groups.cpu()] == [2.0, 0.5]


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        ("0::/\n", version_2("", memory="max", cpu="max 100000")),
        ("4:cpu,cpuacct:/\n", version_1("", memory=UNLIMITED_V1, quota=-1)),
        ("nonsense\n", {}),
        ("", {"memory.max": "", "cpu.max": "x y z"}),
    ],
    ids=["v2", "v1", "nonsense", "damaged"],
)
def test_no_limit_is_none(tmp_path: Path, membership: str, files: dict[str, object]) -> None:
    """Neither max nor -1 is taken for a number, and what cannot be read is no failure."""
    groups = cgroups(tmp_path, membership, files)
    assert groups.cpu() == []
    assert [limit for limit in groups.memory() if limit.limit != UNLIMITED_V1] == []


def test_this_machine_can_be_read() -> None:
    """Whatever it is, it is read without an exception."""
    assert all(limit.limit > 0 for limit in Cgroups().memory())
    assert all(limit.cores > 0 for limit in Cgroups().cpu())
