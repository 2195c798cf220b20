from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from fts_converters import cache
from fts_converters.cache import StageCache, cache_folder

KEY = {"stage": "s", "net": "1"}


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "stages").glob("*.json"))


def test_gives_back_what_was_put(tmp_path):
    StageCache(tmp_path).put(KEY, {"a": [1.5, None, "ü"]})
    assert StageCache(tmp_path).get(KEY) == {"a": [1.5, None, "ü"]}
    assert StageCache(tmp_path).get({**KEY, "net": "2"}) is None


def test_the_order_of_a_key_does_not_matter(tmp_path):
    StageCache(tmp_path).put(KEY, 1)
    assert StageCache(tmp_path).get(dict(reversed(KEY.items()))) == 1


def test_without_a_folder_nothing_is_remembered():
    nothing = StageCache(None)
    nothing.put(KEY, 1)
    assert nothing.get(KEY) is None


@pytest.mark.parametrize(
    "damage",
    [lambda d: d[:-1], lambda d: d.replace(b"1", b"2"), lambda d: b"", lambda d: b"\xff" * 99, lambda d: d[:64]],
)
def test_a_damaged_entry_is_a_miss_and_can_be_written_again(tmp_path, damage):
    stages = StageCache(tmp_path)
    stages.put(KEY, {"v": 111})
    (entry,) = entries(tmp_path)
    entry.write_bytes(damage(entry.read_bytes()))
    assert stages.get(KEY) is None
    stages.put(KEY, {"v": 111})
    assert stages.get(KEY) == {"v": 111}


def test_an_entry_under_another_ones_name_would_need_its_key(tmp_path):
    stages = StageCache(tmp_path)
    stages.put(KEY, 1)
    assert stages.get({"stage": "s", "net": 1}) is None


def test_writers_at_once_leave_one_whole_entry(tmp_path):
    values = [{"writer": w, "payload": str(w) * 20_000} for w in range(8)]

    def write(value):
        for _ in range(20):
            StageCache(tmp_path).put(KEY, value)
            assert StageCache(tmp_path).get(KEY) in values

    threads = [threading.Thread(target=write, args=(v,)) for v in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(entries(tmp_path)) == 1
    assert StageCache(tmp_path).get(KEY) in values
    assert list((tmp_path / "stages").glob("*.part")) == []


def test_the_least_recently_used_entries_and_leftovers_are_evicted(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT_BYTES", 3000)
    stages = StageCache(tmp_path)
    leftover = tmp_path / "stages" / "killed.part"
    for number in range(3):
        stages.put({"n": number}, "x" * 800)
        for path in entries(tmp_path):
            if path.stat().st_mtime_ns > 10**18:
                os.utime(path, ns=(number, number))
    leftover.write_bytes(b"x" * 500)
    os.utime(leftover, ns=(0, 0))
    assert stages.get({"n": 0}) is not None  # used now: the newest
    stages.put({"n": 3}, "x" * 800)
    assert not leftover.exists()
    assert [stages.get({"n": n}) is not None for n in range(4)] == [True, False, True, True]
    assert sum(p.stat().st_size for p in entries(tmp_path)) <= 3000


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    stages = StageCache(blocked)
    stages.put(KEY, 1)
    assert stages.get(KEY) is None


def test_a_full_disk_leaves_no_part_behind(tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    StageCache(tmp_path).put(KEY, 1)
    assert list((tmp_path / "stages").glob("*")) == []


def test_the_folder_is_the_variables_or_the_homes_or_none(monkeypatch, tmp_path):
    monkeypatch.setenv("FTS_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("FTS_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "fts"

    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder() is None


def test_what_was_dropped_is_forgotten(tmp_path):
    kept = StageCache(tmp_path)
    kept.put(KEY, 1)
    kept.put({**KEY, "net": "2"}, 2)
    for _ in range(2):  # a value that is not there is no error
        kept.drop(KEY)
    assert kept.get(KEY) is None
    assert kept.get({**KEY, "net": "2"}) == 2
    StageCache(None).drop(KEY)
