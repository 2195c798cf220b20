"""The flow from orders to JSON and table, with processes that only answer."""

from __future__ import annotations

import contextlib
import copy
import json
from importlib.resources import files

import numpy as np
import pytest

import fts
from fts.profile.document import arrays_from_samples, document_from_measurement, samples_from_measurement
from fts.profile.measure import Request, measure
from fts.profile.measured_net import NetSpec
from fts.profile.scenarios import Scenario
from fts.profile.table import table_from_document
from fts.vocabulary.plan import NodePlan

from ..bundle.test_schema import problems

FRAMES = 200
SCENARIO = {"name": "closed", "seconds": 5.0, "runs": 5, "threads": 2, "frames": "4 frames, synthetic", "inputs": []}
WARM = {"first_ms": 30.0, "second_ms": 12.0, "tenth_ms": 10.5, "frames": 150, "seconds": 1.5, "window_frames": 25,
        "converged": True}  # fmt: skip


class FakeWorker:
    """A process whose frames take 10 ms, 8 of them in the engine; the portable net takes half as long again."""

    def __init__(self, spec: NetSpec, log: list, clock, *, dropped: int = 0, frame_ms: float = 10.0) -> None:
        self._spec = spec
        self._log = log
        self._clock = clock
        self._dropped = dropped
        self._frame_ms = frame_ms

    def ask(self, do, **arguments):
        self._log.append((self._spec.which, do, arguments))
        return getattr(self, do)(**arguments)

    def warm(self, cap_s):
        return WARM

    def scenario(self, kind, fps, lossless, seconds, least_frames):
        ms = self._frame_ms
        due = np.arange(FRAMES) * ms
        moments = {"due_ns": due, "begin_ns": due, "engine_begin_ns": due + ms / 10, "engine_end_ns": due + ms * 0.9,
                   "end_ns": due + ms}  # fmt: skip
        return {
            **{k: (v * 1e6).astype(int).tolist() for k, v in moments.items()},
            "dropped": self._dropped,
            "gc_total_ms": 0.5,
            "gc_longest_ms": 0.25,
        }

    def slice(self, frames):
        self._clock.pass_ms(10)
        ms = 10.0 if self._spec.which == "target" else 15.0
        return {"wall_ms": ms, "cpu_ms": 2 * ms}

    def layers(self):
        kernels = [
            {"name": "n_token_1", "op_type": "QLinearConv", "ran": "int8", "ms": 14.0},
            {"name": "Reorder", "op_type": "ReorderOutput", "ran": "float", "ms": 1.0},
        ]
        return {"total_ms": 16.0, "frames": 10, "kernels": kernels}

    def memory(self):
        return {"rss_bytes": 100 << 20, "peak_rss_bytes": 120 << 20}


@pytest.fixture
def log():
    return []


@pytest.fixture
def run(clock, log, bundle):
    """A function that measures with fakes and returns the measurement and its document."""
    net = NetSpec(bundle=str(bundle), which="target", strict=True, simulate=False, threads=2, feeds="none.npz")

    def go(*, dropped=0, frames_ms=(10.0,), scenario=SCENARIO, **changes):
        speeds = iter(frames_ms * 100)

        @contextlib.contextmanager
        def load(spec):
            log.append((spec.which, "load", {}))
            yield (
                FakeWorker(spec, log, clock, dropped=dropped, frame_ms=next(speeds)),
                {
                    "open_ms": 3.0,
                    "engine_ms": 40.0,
                },
            )
            log.append((spec.which, "close", {}))

        portable = NetSpec(**{**{f: getattr(net, f) for f in net.__slots__}, "which": "portable"})
        plan = NodePlan(name="n", op_type="Conv", precision="int8", engine="onnxruntime-cpu", reason="because")
        request = {
            "scenario": Scenario(kind="closed"),  # the fakes give the same frames under every load
            "seconds": 5.0,
            "runs": 5,
            "ratio_against": portable,
            "no_ratio_reason": "",
            "layers": True,
            "nodes": (plan,),
            **changes,
        }
        measurement = measure(net, Request(**request), clock, lambda done, total: None, load=load)
        with fts.load(bundle) as model:
            document = document_from_measurement(measurement, model, scenario, ["a note"])
        document["samples"] = samples_from_measurement(measurement)
        return measurement, calm(json.loads(json.dumps(document, allow_nan=False)))

    return go


def calm(document):
    """This machine may be busy while the tests run; the verdict about the fakes must not depend on it."""
    kept = [r for r in document["stability"]["reasons"] if "runs vary" in r or "process alone" in r]
    document["stability"] = {"stable": not kept, "reasons": kept}
    return document


def rules():
    return json.loads(files("fts").joinpath("schema", "profile.schema.json").read_text())


def test_a_document_is_valid_under_the_published_schema(run):
    _, document = run()
    assert list(problems(document, rules(), rules())) == []


def test_every_key_of_the_document_is_required_by_the_schema(run):
    _, document = run()
    checked = 0
    for part in ("latency", "ratio", "machine", "scenario", "cold", "surroundings", "bundle", "layers"):
        for key in document[part]:
            broken = copy.deepcopy(document)
            del broken[part][key]
            assert list(problems(broken, rules(), rules())), f"{part}.{key}"
            checked += 1
    for key in document:
        assert list(problems({k: v for k, v in document.items() if k != key}, rules(), rules())), key
    assert checked > 60


def test_the_schema_file_is_written_as_the_others_are():
    text = files("fts").joinpath("schema", "profile.schema.json").read_text()
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=1) + "\n"


def test_every_run_is_a_fresh_process(run, log):
    run(ratio_against=None, no_ratio_reason="--no-ratio", layers=False)
    assert [do for _, do, _ in log] == ["load", "warm", "scenario", "memory", "close"] * 5


def test_the_first_process_may_warm_up_for_30_seconds_and_later_ones_for_their_share(run, log):
    run(ratio_against=None, layers=False)
    assert [a["cap_s"] for _, do, a in log if do == "warm"] == [30.0, 1.0, 1.0, 1.0, 1.0]


def test_the_ratio_comes_from_nine_pairs_of_fresh_processes_in_random_order(run, log):
    _, document = run(layers=False)
    loads = [which for which, do, _ in log if do == "load"][5:]
    assert sorted(loads) == ["portable"] * 9 + ["target"] * 9
    firsts = loads[::2]
    assert {"target", "portable"} == set(firsts)
    assert document["ratio"]["ratio"] == pytest.approx(10 / 15)
    assert document["ratio"]["differs"]
    slices = [which for which, do, _ in log if do == "slice"]
    assert slices.count("target") == slices.count("portable")
    assert {"target", "portable"} == set(slices[4::2])  # who begins a round changes


def test_figures_of_the_fakes_come_out(run):
    measurement, document = run()
    assert measurement.run_medians_ms == (10.0,) * 5
    latency = document["latency"]
    assert (latency["frames"], latency["dropped"]) == (1000, 0)
    assert [p["value_ms"] for p in latency["percentiles"]] == [10.0] * 3
    assert {s["name"]: s["p50_ms"] for s in document["stages"]} == pytest.approx(
        {"wait": 0, "pre": 1, "engine": 8, "post": 1}
    )
    assert document["cold"]["second_ms"] == 12.0
    assert document["memory"]["peak_rss_bytes"] == 120 << 20
    layers = document["layers"]
    assert layers["inflation"] == pytest.approx(2.0)
    assert layers["attributed_share"] == pytest.approx(15 / 16)
    assert [(r["name"], r["ran"]) for r in layers["rows"]] == [
        ("n", "int8"),
        ("(engine's own)", ""),
        ("unattributed", ""),
    ]


def test_raw_samples_give_the_ages_back(run):
    measurement, document = run()
    samples = document["samples"]
    ages = np.concatenate([np.array(s["wait_ms"]) + s["pre_ms"] + s["engine_ms"] + s["post_ms"] for s in samples])
    np.testing.assert_allclose(ages, measurement.ages_ms)
    assert arrays_from_samples(samples)["run/4/engine_ms"].shape == (FRAMES,)


def test_the_table_shows_percentiles_with_intervals_stages_and_layers(run):
    text = table_from_document(run()[1])
    assert "p50" in text
    assert "10.000 ms   95 % interval 10.000 to 10.000" in text
    assert "medians in ms: wait 0.000, pre 1.000, engine 8.000, post 1.000" in text
    assert "first 30.00 ms, second 12.00 ms, tenth 10.50 ms; steady after 150 frames, 1.50 s" in text
    assert "ratio     0.667x the wall time of the portable FP32 net" in text
    assert "at 2.00x the unprofiled time" in text
    assert "unattributed" in text
    assert "note      a note" in text
    assert "UNSTABLE" not in text


def test_unstable_runs_take_the_place_of_the_figures_in_the_table_but_not_in_json(run):
    _, document = run(frames_ms=(10.0, 12.0))
    text = table_from_document(document)
    assert "UNSTABLE  the medians of 5 runs vary by" in text
    assert "p50" not in text
    assert "medians in ms" not in text
    assert "7.000" not in text  # no layer in ms either
    assert document["latency"]["percentiles"][0]["value_ms"] == 10.0


def test_too_few_frames_are_said_in_place_of_a_number(run):
    _, document = run(runs=1, ratio_against=None)
    p99 = document["latency"]["percentiles"][2]
    assert (p99["state"], p99["value_ms"]) == ("n too small", None)
    document["stability"] = {"stable": True, "reasons": []}
    assert "n too small (200 frames)" in table_from_document(document)


def test_dropped_frames_are_violations_and_reach_the_percentiles(run):
    scenario = {**SCENARIO, "name": "open@30"}
    _, document = run(dropped=100, scenario=scenario)
    assert document["latency"]["dropped"] == 500
    assert [p["state"] for p in document["latency"]["percentiles"]] == ["ok", "lost", "lost"]
    assert list(problems(document, rules(), rules())) == []
    text = table_from_document(document)
    assert "dropped   500 of 1500 frames (33.3%); each is a violation" in text
    assert "beyond measure: frames were lost" in text


def test_no_difference_is_said_so(run):
    _, document = run()
    document["ratio"] |= {"differs": False, "reason": "the 95 % interval 0.980 to 1.020 contains 1"}
    assert "no difference detected (the 95 % interval 0.980 to 1.020 contains 1, wall time)" in table_from_document(
        document
    )


def test_a_ratio_of_cpu_time_is_called_so(run):
    _, document = run()
    document["ratio"]["measure"] = "CPU time"
    text = table_from_document(document)
    assert "0.667x the CPU time of the portable FP32 net" in text
    assert "the machine was too busy to compare wall time" in text


def test_a_ratio_left_out_gives_its_reason(run):
    _, document = run(ratio_against=None, no_ratio_reason="what runs here is the portable FP32 net itself")
    assert document["ratio"] == {"against": None, "reason": "what runs here is the portable FP32 net itself"}
    assert "ratio     none: what runs here is the portable" in table_from_document(document)
    assert list(problems(document, rules(), rules())) == []
