from __future__ import annotations

import os
from pathlib import Path

import pytest

from fts.engines.threads import available_cpus


def cpus(tmp_path: Path, proc: str, files: dict[str, str], affinity: int = 16) -> int:
    (tmp_path / "cgroup").write_text(proc)
    for name, text in files.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return available_cpus(affinity=affinity, proc_cgroup=tmp_path / "cgroup", cgroup_root=tmp_path / "fs")


V1_PROC = "12:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n"


@pytest.mark.parametrize(
    ("proc", "files", "expected"),
    [
        ("0::/\n", {}, 16),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 16),
        ("0::/\n", {"cpu.max": "350000 100000\n"}, 3),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "6400000 100000\n"}, 16),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "200000 100000\n"}, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "200000 100000\n", "a/cpu.max": "400000 100000\n", "cpu.max": "max 1\n"}, 2),
        ("0::/host/path/not/mounted\n", {"cpu.max": "400000 100000\n"}, 4),
        (V1_PROC, {"cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "150000\n",
                   "cpu,cpuacct/docker/abc/cpu.cfs_period_us": "50000\n"}, 3),
        (V1_PROC, {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        (V1_PROC, {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 16),
        ("nonsense\n0::/a:b\n", {"a:b/cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "word 0\n"}, 16),
        ("0::/../..\n", {"cpu.max": "200000 100000\n"}, 2),
    ],
)  # fmt: skip
def test_takes_the_tightest_quota_rounded_down(tmp_path, proc, files, expected):
    assert cpus(tmp_path, proc, files) == expected


def test_affinity_below_the_quota_holds(tmp_path):
    assert cpus(tmp_path, "0::/\n", {"cpu.max": "800000 100000"}, affinity=2) == 2


def test_needs_no_cgroups_at_all(tmp_path):
    assert available_cpus(affinity=5, proc_cgroup=tmp_path / "none", cgroup_root=tmp_path / "none") == 5


def test_here_it_is_between_one_and_what_affinity_allows():
    assert 1 <= available_cpus() <= len(os.sched_getaffinity(0))
