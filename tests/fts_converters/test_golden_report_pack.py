"""What goes into a bundle: golden tensors, report, and bytes that are the same for the same inputs."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import numpy as np
import pytest

from fts.bundle.archive import open_bundle
from fts.bundle.tensors_npz import arrays_from_npz
from fts.engines.onnxruntime_session import open_session
from fts.imaging.preprocess import tensor_from_frame
from fts.vocabulary.manifest import InputEntry, OutputEntry
from fts.vocabulary.preprocessing import Preprocessing
from fts.vocabulary.tensor_spec import TensorSpec
from fts_calibration.dataset.calibration_set import FileRecord
from fts_calibration.metrics.budget import Score, parse_budget
from fts_calibration.statistics.statistics import TensorRange
from fts_converters.contract import InputContract
from fts_converters.golden import SAMPLES, golden_limits, synthetic_samples
from fts_converters.pack import Contents, make_golden, pack
from fts_converters.quantize.search_budget import UnitLoss
from fts_converters.report import metrics_json, report_json
from fts_devices.profiles import load_profile


def contract(layout: str = "nchw", dtype: str = "float32", side: int = 32) -> InputContract:
    shape = (1, 3, side, side) if layout == "nchw" else (1, side, side, 3)
    spec = TensorSpec(name="x", dtype=dtype, shape=shape)
    return InputContract(spec=spec, kind="image", preprocessing=Preprocessing(layout=layout))


# Golden pictures are 8-bit frames first, so a value may lie half a pixel step beyond the set's bounds.
HALF_STEP = 0.5 / 255

MOMENTS = {"x": {"mean": [0.2, 0.5, 0.7], "std": [0.05, 0.1, 0.1], "low": [0.0, 0.1, 0.3], "high": [0.6, 0.9, 1.0]}}


def feeds_of(inputs, moments, first):
    return [s.feed for s in synthetic_samples(inputs, moments, first)]


# --- golden -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_synthetic_pictures_have_the_sets_statistics_and_are_the_same_every_time(layout):
    feeds = feeds_of([contract(layout)], MOMENTS, {})
    again = feeds_of([contract(layout)], MOMENTS, {})
    assert len(feeds) == SAMPLES
    assert all(np.array_equal(a["x"], b["x"]) for a, b in zip(feeds, again, strict=True))
    assert not np.array_equal(feeds[0]["x"], feeds[1]["x"])
    for feed in feeds:
        planes = feed["x"][0] if layout == "nchw" else np.moveaxis(feed["x"][0], -1, 0)
        assert feed["x"].dtype == np.float32
        for c, plane in enumerate(planes):
            # Zero mean and unit deviation by construction for the parts, not for their sum, and clipped at the bounds.
            assert plane.mean() == pytest.approx(MOMENTS["x"]["mean"][c], abs=0.2 * MOMENTS["x"]["std"][c])
            assert plane.std() == pytest.approx(MOMENTS["x"]["std"][c], rel=0.35)
            assert (
                MOMENTS["x"]["low"][c] - HALF_STEP <= plane.min() <= plane.max() <= MOMENTS["x"]["high"][c] + HALF_STEP
            )


def test_a_frame_stands_beside_each_picture_and_preprocessing_turns_it_into_the_tensor():
    (sample, _) = synthetic_samples([contract()], MOMENTS, {})
    tensor, _ = tensor_from_frame(sample.frames["x"], contract().spec, Preprocessing())
    np.testing.assert_array_equal(tensor, sample.feed["x"])


def test_raw_tensors_on_another_scale_come_without_a_frame():
    moments = {"x": {"mean": [90.0] * 3, "std": [20.0] * 3, "low": [0.0] * 3, "high": [255.0] * 3}}
    assert all(not s.frames for s in synthetic_samples([contract()], moments, {}))


def test_integer_pictures_are_whole_and_tensor_inputs_take_turns():
    moments = {"x": {"mean": [120.0] * 3, "std": [40.0] * 3, "low": [0.0] * 3, "high": [255.0] * 3}}
    values = np.arange(8, dtype=np.float32).reshape(2, 1, 4)
    age = InputContract(spec=TensorSpec(name="age", dtype="float32", shape=(1, 4)), kind="tensor", values=values)
    free = InputContract(spec=TensorSpec(name="z", dtype="float32", shape=(1, 2)), kind="tensor")
    feeds = feeds_of([contract(dtype="uint8"), age, free], moments, {"z": np.ones((1, 2), np.float32)})
    assert feeds[0]["x"].dtype == np.uint8
    assert [f["age"].tolist() for f in feeds] == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]
    assert [f["z"].tolist() for f in feeds] == [[[1, 1]], [[1, 1]]]


@pytest.mark.parametrize("side", [1, 2, 7])
def test_the_smallest_pictures_are_finite(side):
    assert all(np.isfinite(f["x"]).all() for f in feeds_of([contract(side=side)], MOMENTS, {}))


def test_limits_are_the_formula_of_the_design():
    fp32 = [{"y": np.array([0.0, 4.0])}, {"y": np.array([1.0, 2.0])}]
    engine = [{"y": np.array([1.0, 4.0])}, {"y": np.array([1.0, 3.0])}]
    # rms = sqrt((1 + 0 + 0 + 1) / 4), range = 4: over all samples together.
    assert golden_limits(fp32, engine, ["y"]) == {"y": 1.5 * 0.5**0.5 + 1e-4 * 4.0}
    assert golden_limits([{"y": np.zeros(0)}], [{"y": np.zeros(0)}], ["y"]) == {"y": 0.0}


# --- report -------------------------------------------------------------------------------------------------------------


def score(budget: str = "psnr>=30", *values: float) -> Score:
    return Score(output="y", budget=parse_budget(budget), values=values)


def report(bench, **changed: Any) -> dict[str, Any]:
    trial = bench.trial(
        bench.net("g (float[1,3,8,8] x) => (float[1,8,6,6] y) { y = Conv(x,w) }", w=bench.noise(8, 3, 3, 3))
    )
    files = [
        FileRecord(path="a.png", status="used", sha256="1", split="calibrate", mean_rgb=(1.234, 2.0, 3.0)),
        FileRecord(path="b.png", status="skipped", reason="not a picture"),
        FileRecord(path="c.png", status="duplicate", reason="equal to a.png", split="calibrate"),
    ]
    loss = UnitLoss(unit="Conv_0", op_type="Conv", score=score("psnr>=30", 28.0), mac_share=1.0, decision="float")
    given: dict[str, Any] = {
        "target": "cpu-int8", "dialect": "d", "files": files, "plan": trial.plan, "integer_mac_share": 1.0, "losses": [loss],
        "metrics": metrics_json([score("psnr>=30", 28.0, 40.0), score("sqnr.mean>=20", 120.0)], "select", "measured"),
        "budget": {"text": "psnr>=30", "met": False, "items": [{"failure": "missed"}]},
        "ranges": {"x": TensorRange(low=-1.0, high=0.1)},
        "kernels": dict(trial.kernels.kernels), "warnings": [("id", "text")], **changed,
    }  # fmt: skip
    return json.loads(report_json(**given))


def problems(value: Any, schema: dict[str, Any], where: str = "report") -> list[str]:
    """The part of JSON Schema that the report's schema uses."""
    if "anyOf" in schema:
        return [] if any(not problems(value, s, where) for s in schema["anyOf"]) else [f"{where}: matches none"]
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "null": type(None),
        "integer": int,
        "number": (int, float),
    }
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{where}: {value!r} not in {schema['enum']}"]
    kind = schema["type"]
    if not isinstance(value, kinds[kind]) or (isinstance(value, bool) and kind in ("integer", "number")):
        return [f"{where}: {value!r} is no {kind}"]
    found = []
    if kind == "object":
        found += [f"{where}: lacks {k}" for k in schema.get("required", ()) if k not in value]
        extra = schema.get("additionalProperties", True)
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key, extra)
            if inner is False:
                found.append(f"{where}: unknown key {key}")
            elif isinstance(inner, dict):
                found += problems(item, inner, f"{where}.{key}")
    if kind == "array":
        found += [p for i, v in enumerate(value) for p in problems(v, schema.get("items", {}), f"{where}[{i}]")]
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            found.append(f"{where}: {len(value)} items")
    if kind == "string" and len(value) < schema.get("minLength", 0):
        found.append(f"{where}: too short")
    if kind in ("integer", "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        found.append(f"{where}: {value} out of bounds")
    return found


SCHEMA = json.loads((resources.files("fts") / "schema" / "report.schema.json").read_text(encoding="utf-8"))


def test_the_report_is_valid_under_its_schema(bench):
    assert problems(report(bench), SCHEMA) == []


def test_the_schema_knows_every_key_of_the_report_and_requires_it(bench):
    found = report(bench)
    assert set(SCHEMA["required"]) == set(found) == set(SCHEMA["properties"])
    metric = SCHEMA["properties"]["metrics"]["items"]
    assert set(metric["required"]) == set(found["metrics"][0]) == set(metric["properties"])


@pytest.mark.parametrize("key", ["kernels", "metrics", "nodes", "integer_mac_share", "sensitivity"])
def test_a_report_that_lacks_a_key_or_has_a_strange_one_is_invalid(bench, key):
    whole = report(bench)
    assert problems({k: v for k, v in whole.items() if k != key}, SCHEMA) == [f"report: lacks {key}"]
    assert problems({**whole, "clock": 1}, SCHEMA) == ["report: unknown key clock"]


def test_metrics_say_what_the_budget_speaks_of():
    first, second = metrics_json(
        [score("psnr>=30", 28.0, 40.0), score("psnr.mean>=30", 28.0, 40.0)], "verify", "measured"
    )
    assert (first["value"], first["met"], first["min"], first["mean"], first["n"]) == (28.0, False, 28.0, 34.0, 2)
    assert (second["value"], second["met"], second["budget"]) == (34.0, True, "psnr.mean>=30")
    assert metrics_json([score()], "verify", "measured") == []


def test_files_are_listed_with_status_and_reason(bench):
    files = report(bench)["calibration"]["files"]
    assert [f["status"] for f in files] == ["used", "skipped", "used"]
    assert [f["split"] for f in files] == ["calibrate", None, "calibrate"]
    assert files[0]["mean_rgb"] == [1.23, 2.0, 3.0]
    assert report(bench)["calibration"]["ranges"] == [{"tensor": "x", "low": -1.0, "high": 0.1}]


def test_the_report_is_the_same_text_for_the_same_conversion(bench):
    assert report(bench) == report(bench)
    with pytest.raises(ValueError, match="not JSON compliant"):
        report(bench, integer_mac_share=float("nan"))


# --- pack ---------------------------------------------------------------------------------------------------------------


def pack_one(bench, path):
    net = bench.net("g (float[1,3,8,8] x) => (float[1,8,6,6] y) { y = Conv(x,w) }", w=bench.noise(8, 3, 3, 3))
    trial = bench.trial(net)
    profile = load_profile("cpu-int8")
    sessions = [
        open_session(m.SerializeToString(), exact_u8s8=exact, threads=1)
        for m, exact in ((trial.index.model, False), (trial.encoded.model, True))
    ]
    samples = synthetic_samples([contract(side=8)], MOMENTS, {})
    contents = Contents(
        profile=profile,
        dialect=profile.dialects["any"],
        inputs=(InputEntry(spec=contract(side=8).spec, kind="image", preprocessing=Preprocessing()),),
        outputs=(OutputEntry(spec=TensorSpec(name="y", dtype="float32", shape=(1, 8, 6, 6)), kind="tensor"),),
        portable=trial.index.net,
        encoded=trial.encoded.model,
        golden=make_golden(samples, *sessions, "synthetic"),
        provenance={"model_sha256": "0" * 64, "calibration_sha256": "1" * 64, "tools": {}, "options": {}},
    )
    quality = {"budget": "psnr>=30", "met": True, "metrics": [], "integer_mac_share": 1.0}
    pack(path, contents, plan=trial.plan, quality=quality, evidence=None, report="{}\n")
    return path


def test_two_packs_of_the_same_are_the_same_bytes(bench, tmp_path):
    first, second = (pack_one(bench, tmp_path / name).read_bytes() for name in ("one.fts", "another.fts"))
    assert first == second
    assert str(tmp_path).encode() not in first
    assert b"another" not in first


def test_a_pack_holds_engine_portable_golden_and_report(bench, tmp_path):
    bundle = open_bundle(pack_one(bench, tmp_path / "net.fts"))
    manifest = bundle.manifest
    assert [e.member for e in manifest.engines] == ["engines/cpu-int8.onnx", "model/portable.onnx"]
    assert [m.path for m in manifest.members] == [
        "engines/cpu-int8.onnx",
        "golden.npz",
        "model/portable.onnx",
        "report/report.json",
    ]
    assert [(r.id, r.height_px, r.width_px) for r in manifest.rungs] == [("8x8", 8, 8)]
    golden = arrays_from_npz(bundle.read("golden.npz"))
    assert set(golden) == {
        f"{k}/{i}/{n}" for i in range(SAMPLES) for k, n in (("frame", "x"), ("in", "x"), ("fp32", "y"), ("engine", "y"))
    }
    a, b = (
        np.concatenate([golden[f"{k}/{i}/y"] for i in range(SAMPLES)]).astype(np.float64) for k in ("fp32", "engine")
    )
    limit = 1.5 * np.sqrt(np.mean((a - b) ** 2)) + 1e-4 * (a.max() - a.min())
    assert manifest.golden["limits"]["y"] == pytest.approx(limit, rel=1e-12)
