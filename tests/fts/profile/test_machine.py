"""The machine, its surroundings, and whether they allow a headline."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from fts.profile import surroundings
from fts.profile.machine import frequencies_mhz, this_machine
from fts.profile.stability import unstable_reasons, variation
from fts.profile.surroundings import Surroundings, Watch

CALM = Surroundings(
    wall_s=10.0,
    others_share=0.01,
    steal_share=0.0,
    throttled_periods=0,
    frequency_min_mhz=3000.0,
    frequency_max_mhz=3030.0,
)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def board(tmp_path):
    cpu = "sys/devices/system/cpu/cpu{}/cpufreq/{}"
    files = {
        cpu.format(i, name): text
        for i in (0, 1)
        for name, text in (
            ("scaling_governor", "performance\n"),
            ("scaling_min_freq", "1500000\n"),
            ("scaling_max_freq", "1500000\n"),
            ("scaling_cur_freq", f"{1490000 + i * 10000}\n"),
        )
    }
    files["proc/cpuinfo"] = "processor : 0\nmodel name : Board CPU\nflags : fpu avx2 avx512_vnni\ncpu MHz : 9\n"
    files["proc/device-tree/model"] = "Board Developer Kit\0"
    return write(tmp_path, files)


def test_a_machine_is_read_from_proc_and_sys(board):
    machine = this_machine(board)
    assert machine.cpu_model == "Board CPU"
    assert machine.cpu_flags == ("avx2", "avx512_vnni")
    assert machine.governors == ("performance",)
    assert machine.frequency_locked is True
    assert machine.device_model == "Board Developer Kit"
    assert frequencies_mhz(board) == (1490.0, 1500.0)


def test_a_range_of_frequencies_is_not_locked(board):
    (board / "sys/devices/system/cpu/cpu1/cpufreq/scaling_min_freq").write_text("800000\n")
    assert this_machine(board).frequency_locked is False


def test_what_the_system_does_not_tell_stays_open(tmp_path):
    machine = this_machine(tmp_path)
    assert (machine.frequency_locked, machine.governors, machine.nvpmodel) == (None, (), "")
    assert frequencies_mhz(tmp_path) == ()


def test_the_power_mode_of_a_jetson_is_asked_for_where_its_commands_exist(tmp_path, monkeypatch):
    for name, text in (
        ("nvpmodel", 'echo "NV Power Mode: MAXN"\necho 0'),
        ("tegrastats", "echo RAM 1/2\nexec sleep 60"),
    ):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    machine = this_machine()
    assert machine.nvpmodel == "NV Power Mode: MAXN 0"
    assert machine.tegrastats == "RAM 1/2"


def stat(user: int, idle: int, steal: int) -> str:
    return f"cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n"


def test_load_by_others_is_all_busy_time_minus_our_own(tmp_path, monkeypatch):
    ticks = os.sysconf("SC_CLK_TCK")
    own = [100.0]
    monkeypatch.setattr(surroundings.os, "times", lambda: os.times_result((own[0], 0.0, 0.0, 0.0, 0.0)))
    write(tmp_path, {"proc/stat": stat(0, 0, 0), "sys/fs/cgroup/cpu.stat": "nr_periods 9\nnr_throttled 4\n"})
    with Watch(tmp_path) as watch:
        own[0] += 5  # of the 6 seconds that the machine was busy
        write(
            tmp_path,
            {
                "proc/stat": stat(6 * ticks, 13 * ticks, 1 * ticks),
                "sys/fs/cgroup/cpu.stat": "nr_periods 20\nnr_throttled 7\n",
            },
        )
    assert watch.seen.others_share == pytest.approx(1 / 20)
    assert watch.seen.steal_share == pytest.approx(1 / 20)
    assert watch.seen.throttled_periods == 3


def test_a_system_that_tells_nothing_leaves_the_surroundings_open(tmp_path):
    with Watch(tmp_path) as watch:
        pass
    assert (watch.seen.others_share, watch.seen.throttled_periods, watch.seen.frequency_max_mhz) == (None, None, None)


def test_frequencies_are_sampled(board):
    with Watch(board) as watch:
        pass
    assert (watch.seen.frequency_min_mhz, watch.seen.frequency_max_mhz) == (1490.0, 1500.0)


def reasons(medians=(10.0, 10.1, 9.9), *, converged=True, locked=True, **seen) -> tuple[str, ...]:
    machine = replace(this_machine(Path("/nowhere")), frequency_locked=locked)
    return unstable_reasons(medians, converged=converged, machine=machine, seen=replace(CALM, **seen))


def test_calm_and_equal_runs_are_a_headline():
    assert reasons() == ()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"medians": (10.0, 10.6, 9.9)}, "vary by 3.7%"),
        ({"medians": (10.0,)}, "one process alone"),
        ({"converged": False}, "had not settled"),
        ({"others_share": 0.06}, "other processes used 6%"),
        ({"steal_share": 0.2}, "the host took 20%"),
        ({"throttled_periods": 2}, "stopped the process 2 times"),
        ({"frequency_max_mhz": 3070.0}, "from 3000 to 3070 MHz"),
    ],
)
def test_each_disturbance_is_a_reason_against_a_headline(changes, text):
    (reason,) = reasons(**changes)
    assert text in reason


def test_a_frequency_that_is_not_locked_may_vary():
    assert reasons(locked=False, frequency_max_mhz=4000.0) == ()
    assert reasons(locked=None, frequency_max_mhz=4000.0) == ()


def test_what_is_not_known_is_no_reason():
    unknown = dict.fromkeys(("others_share", "steal_share", "throttled_periods", "frequency_min_mhz"))
    assert reasons(**unknown) == ()


def test_variation_is_relative_to_the_mean():
    assert variation([9.0, 11.0]) == pytest.approx(2**0.5 / 10)
    assert variation([9.0]) is None
