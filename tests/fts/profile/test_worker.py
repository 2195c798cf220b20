"""The measuring process: its orders on a real bundle, and how it fails."""

from __future__ import annotations

import io
import json
import os

import numpy as np
import pytest

from fts.errors import EngineError
from fts.profile.measured_net import FRAME_KEY, INPUT_KEY, NetSpec
from fts.profile.worker import GcPauses, serve
from fts.profile.worker_process import WorkerProcess, loaded_worker


@pytest.fixture
def spec(bundle, frame, tmp_path):
    feeds = tmp_path / "feeds.npz"
    np.savez(feeds, **{f"{FRAME_KEY}0": frame, f"{FRAME_KEY}1": frame[:30]})
    fields = {"which": "target", "strict": True, "simulate": False, "threads": 1}
    return {"bundle": str(bundle), "feeds": str(feeds), **fields}


def answers(*orders):
    out = io.StringIO()
    code = serve(io.StringIO("".join(json.dumps(o) + "\n" for o in orders)), out)
    return code, [json.loads(line) for line in out.getvalue().splitlines()]


def test_orders_are_carried_out_in_turn(spec):
    code, found = answers(
        {"do": "load", **spec},
        {"do": "warm", "cap_s": 0.01},
        {"do": "scenario", "kind": "closed", "fps": 0, "lossless": False, "seconds": 0, "least_frames": 7},
        {"do": "scenario", "kind": "open", "fps": 200, "lossless": True, "seconds": 0.05, "least_frames": 1},
        {"do": "slice", "frames": 5},
        {"do": "memory"},
    )
    assert code == 0
    load, warm, closed, opened, part, memory = (a["ok"] for a in found)
    assert load.keys() == {"open_ms", "engine_ms"}
    assert warm["frames"] >= 1
    for timeline, frames in ((closed, 7), (opened, 10)):
        moments = [timeline[k] for k in ("due_ns", "begin_ns", "engine_begin_ns", "engine_end_ns", "end_ns")]
        assert np.array(moments).shape == (5, frames)
        assert (np.diff(np.array(moments), axis=0) >= 0).all()
    assert opened["dropped"] == 0
    assert part["wall_ms"] > 0
    assert part["cpu_ms"] > 0
    assert memory["rss_bytes"] > 0


def test_layers_come_from_a_session_of_their_own(spec):
    _, (_, layers) = answers({"do": "load", **spec}, {"do": "layers"})
    assert "Sub" in [k["op_type"] for k in layers["ok"]["kernels"]]
    assert all(k["ran"] == "float" for k in layers["ok"]["kernels"])


def test_the_portable_net_can_be_measured_in_place_of_the_engine(kit, tmp_path, spec):
    other = kit.onnx_bytes(kit.NEGATIVE.replace("Sub", "Add"))
    bundle = kit.Recipe(encoded=other).write(tmp_path / "other.cpu-int8.fts")
    operators = []
    for which in ("target", "portable"):
        _, (_, layers) = answers({"do": "load", **spec, "bundle": str(bundle), "which": which}, {"do": "layers"})
        operators.append([k["op_type"] for k in layers["ok"]["kernels"]])
    assert operators == [["Add"], ["Sub"]]


def test_values_of_other_inputs_are_fed_with_the_frames(kit, tmp_path, frame, spec):
    bundle = kit.aged().write(tmp_path / "aged.cpu-int8.fts")
    feeds = tmp_path / "aged.npz"
    np.savez(feeds, **{f"{FRAME_KEY}0": frame, f"{INPUT_KEY}age": np.ones((1, 1), np.float32)})
    code, _ = answers({"do": "load", **spec, "bundle": str(bundle), "feeds": str(feeds)}, {"do": "slice", "frames": 1})
    assert code == 0


def test_an_error_of_fts_is_answered_with_its_exit_code(spec):
    code, (answer,) = answers({"do": "load", **spec, "bundle": "none.fts"}, {"do": "memory"})
    assert code == 1
    assert "no such file" in answer["error"]
    assert answer["exit_code"] == 2


def test_an_order_out_of_turn_is_a_defect():
    code, (answer,) = answers({"do": "slice", "frames": 1})
    assert code == 1
    assert "before load" in answer["defect"]


def test_a_fresh_process_answers_and_ends(spec):
    with loaded_worker(NetSpec(**spec)) as (worker, loading):
        assert loading["engine_ms"] > 0
        assert worker.ask("slice", frames=2)["wall_ms"] > 0
    assert worker._process.returncode == 0


def test_a_relative_python_path_means_the_same_in_the_process(monkeypatch, tmp_path, spec):
    (tmp_path / "modules" / "numpy").mkdir(parents=True)
    (tmp_path / "modules" / "numpy" / "__init__.py").write_text("raise ImportError('the numpy of PYTHONPATH')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["modules", os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
    with pytest.raises(EngineError, match="the numpy of PYTHONPATH"), loaded_worker(NetSpec(**spec)):
        pytest.fail("imported another numpy")


def test_modules_in_the_folder_where_the_command_is_typed_are_not_imported(monkeypatch, tmp_path, spec):
    (tmp_path / "numpy.py").write_text("raise ImportError('a file of the user')")
    monkeypatch.chdir(tmp_path)
    with loaded_worker(NetSpec(**spec)) as (worker, _):
        assert worker.ask("memory")["rss_bytes"] > 0


def test_an_error_in_a_process_is_raised_here(spec):
    with pytest.raises(EngineError, match="no such file"), loaded_worker(NetSpec(**{**spec, "bundle": "none.fts"})):
        pytest.fail("loaded a bundle that is not there")


def test_a_process_that_dies_is_noticed():
    worker = WorkerProcess()
    try:
        worker._process.kill()
        with pytest.raises(EngineError, match="ended with exit code -9 during 'memory'"):
            worker.ask("memory")
    finally:
        worker.close()


def test_a_defect_in_a_process_is_no_error_of_the_input():
    worker = WorkerProcess()
    try:
        with pytest.raises(RuntimeError, match="before load"):
            worker.ask("slice", frames=1)
    finally:
        worker.close()


def test_pauses_of_the_garbage_collector_are_measured():
    import gc

    with GcPauses() as pauses:
        gc.collect()
    assert 0 < pauses.longest_ns <= pauses.total_ns
    before = pauses.total_ns
    gc.collect()
    assert pauses.total_ns == before
