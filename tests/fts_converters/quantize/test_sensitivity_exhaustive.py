"""Each unit alone in INT8: cut in front of the unit and in several processes, the scores are those of the whole net."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fts_converters.quantize.measured_nets import branches

from fts.engines.onnxruntime_session import open_session
from fts.errors import EngineError
from fts.profile.memory import Memory
from fts_calibration.metrics.budget import worst
from fts_calibration.metrics.evaluate import evaluate
from fts_calibration.sensitivity import run_parts
from fts_calibration.sensitivity.exhaustive import measure_exhaustively
from fts_calibration.sensitivity.kept_tensors import tensors_to_keep
from fts_calibration.sensitivity.measure_part import PartRunner
from fts_calibration.sensitivity.run_parts import available_memory_bytes, usual_processes
from fts_calibration.sensitivity.suffix import suffix_of

# Of a score in dB. ONNX Runtime fuses otherwise around a cut, so sums differ in float32's last bits: 2^-24 each, over a
# handful of layers, beside noise of at least 1e-3 of the output.
SAME = 1e-6
UNITS = ["left", "right", "deep", "z", "joined", "wide"]


@pytest.fixture(scope="module")
def measured(bench):
    found = branches(bench)
    with found.given.references:
        yield found


def whole_net(measured, unit: str):
    """Scores from the whole encoded net, without a cut."""
    given = measured.given
    session = open_session(given.encode(unit).SerializeToString(), threads=1)

    def run(feed):
        return dict(zip(session.output_names, session.run(feed), strict=True))

    return evaluate(run, measured.feeds, given.references, given.budgets)


def test_the_net_has_units_of_every_kind(measured) -> None:
    assert [u.name for u in measured.given.units] == UNITS


def test_scores_are_those_of_the_whole_net(measured) -> None:
    table = measure_exhaustively(measured.given, processes=1)
    assert list(table.scores) == UNITS
    for unit, scores in table.scores.items():
        expected = whole_net(measured, unit)
        assert [s.output for s in scores] == [e.output for e in expected] == ["y", "z"]
        for score, known in zip(scores, expected, strict=True):
            assert score.values == pytest.approx(known.values, rel=SAME)
        assert table.losses[unit] == pytest.approx(-worst(expected).margin, rel=SAME)
    assert len(set(table.losses.values())) == len(UNITS)


def test_two_processes_give_the_same_table(measured) -> None:
    alone, told = measure_exhaustively(measured.given, processes=1), []
    spread = measure_exhaustively(measured.given, processes=2, on_unit=lambda unit, score: told.append(unit))
    assert told == UNITS
    assert spread.losses == pytest.approx(alone.losses, rel=SAME)
    assert (spread.method, spread.samples, spread.forward_passes) == ("exhaustive", 3, alone.forward_passes)


def test_only_what_depends_on_the_unit_runs(measured) -> None:
    given = measured.given
    kept = (*given.net.inputs, *tensors_to_keep(given.net, UNITS, 3))
    units = {u.name: u for u in given.units}

    def nodes(unit: str) -> list[str]:
        model = suffix_of(given.encode(unit), given.net, units[unit], kept, tuple(given.budgets)).model
        return [n.name for n in model.graph.node if n.name in given.net.macs or n.op_type.endswith("Normalization")]

    assert nodes("deep") == ["deep", "normed", "wide"]
    assert nodes("z") == ["z"]
    assert nodes("left") == ["left", "deep", "normed", "wide"]
    table = measure_exhaustively(given, processes=1)
    macs = given.net.macs
    rest = {"wide": {"wide"}, "joined": {"wide"}, "deep": {"deep", "wide"}, "z": {"z"}}
    rest |= {"left": {"left", "deep", "wide"}, "right": {"right", "z", "wide"}}
    expected = sum(sum(macs[n] for n in part) for part in rest.values())
    assert table.forward_passes == pytest.approx(3 * (1 + expected / sum(macs.values())))


def test_an_inner_tensor_of_the_unit_is_never_taken_for_its_input(measured) -> None:
    """`left` is made in front of `right`, its activation behind: the tensor in between crosses the cut at `right`."""
    given = measured.given
    kept = tensors_to_keep(given.net, UNITS, 3)
    assert "left" in kept
    suffix = suffix_of(given.encode("left"), given.net, given.units[0], (*given.net.inputs, *kept), ("y", "z"))
    assert "left" not in [i.name for i in suffix.model.graph.input]


def test_with_little_room_fewer_cuts_are_kept_and_the_scores_stay(measured, monkeypatch) -> None:
    given = measured.given
    all_cuts = tensors_to_keep(given.net, UNITS, 3)
    sizes = {n: given.net.size_bytes(n) for n in all_cuts}
    few = tensors_to_keep(given.net, UNITS, 3, sample_limit_bytes=sum(sizes.values()) - 1)
    assert set(few) < set(all_cuts)
    assert sum(sizes[n] for n in few) < sum(sizes.values())
    assert tensors_to_keep(given.net, UNITS, 3, disk_limit_bytes=100) == ()
    usual = measure_exhaustively(given, processes=1)
    for cuts in (few, ()):
        monkeypatch.setattr("fts_calibration.sensitivity.exhaustive.tensors_to_keep", lambda *_, c=cuts: c)
        table = measure_exhaustively(given, processes=1)
        assert table.losses == pytest.approx(usual.losses, rel=SAME)
        assert table.forward_passes >= usual.forward_passes
    assert table.forward_passes > usual.forward_passes


def test_what_was_measured_is_remembered_and_not_run_again(measured, monkeypatch) -> None:
    class Remembered(dict):
        def put(self, digest, values):
            self[digest] = values

    given = replace(measured.given, memory=Remembered())
    first = measure_exhaustively(given, processes=1)
    assert len(given.memory) == len(UNITS)
    monkeypatch.setattr(PartRunner, "values_of", None)
    assert measure_exhaustively(given, processes=1) == first
    told = []
    forgotten = next(iter(given.memory))
    monkeypatch.undo()
    values = given.memory.pop(forgotten)
    measure_exhaustively(given, processes=1, on_unit=lambda unit, score: told.append(unit))
    assert told == UNITS
    assert given.memory[forgotten] == values


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_names_the_unit_and_nothing_stays_behind(measured, processes, tmp_path, monkeypatch) -> None:
    def broken(unit):
        model = measured.given.encode(unit)
        if unit == "deep":
            next(n for n in model.graph.node if n.name == "deep").op_type = "Convolve"
        return model

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(EngineError, match=r"unit 'deep' alone in INT8: .*onnxruntime.* cannot load it"):
        measure_exhaustively(replace(measured.given, encode=broken), processes=processes)
    assert not list(tmp_path.glob("fts-sensitivity-*"))


def test_an_interrupt_ends_the_processes(measured, monkeypatch) -> None:
    workers = []

    class Watched(run_parts.WorkerProcess):
        def __init__(self, module):
            super().__init__(module)
            workers.append(self._process)

    def interrupt(unit, score):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_parts, "WorkerProcess", Watched)
    with pytest.raises(KeyboardInterrupt):
        measure_exhaustively(measured.given, processes=2, on_unit=interrupt)
    assert [w.returncode is None for w in workers] == [False, False]


def test_processes_follow_from_cpus_memory_and_work(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(run_parts, "available_cpus", lambda: 8)
    monkeypatch.setattr(run_parts, "resident_memory", lambda: Memory(rss_bytes=None, peak_rss_bytes=10**9))
    found = []
    for free_bytes in (100 * 10**9, 3 * 10**9, 0, None):
        monkeypatch.setattr(run_parts, "available_memory_bytes", lambda f=free_bytes: f)
        found.append((usual_processes(100), usual_processes(17), usual_processes(3)))
    assert found == [(8, 2, 1), (3, 2, 1), (1, 1, 1), (8, 2, 1)]


def test_free_memory_is_what_the_tightest_limit_leaves(tmp_path) -> None:
    info = tmp_path / "meminfo"
    info.write_text("MemTotal:       1000 kB\nMemAvailable:    600 kB\n")
    assert available_memory_bytes(info, tmp_path / "none") == 600 * 1024
    (tmp_path / "memory.max").write_text("500000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert available_memory_bytes(info, tmp_path) == 100000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory_bytes(info, tmp_path) == 600 * 1024
    assert available_memory_bytes(tmp_path / "none", tmp_path / "none") is None
