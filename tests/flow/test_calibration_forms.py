"""Every form of --calib gives a bundle that says what the net takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fts
from fts.bundle.archive import open_bundle
from fts.errors import FrameError

from .conftest import Run, report_of
from .nets import TENSOR, TWO_INPUTS, save_feeds, save_net, save_pictures

ITERABLE = """
import numpy as np
def samples():
    rng = np.random.default_rng(1)
    for _ in range(8):
        yield {"x": rng.random((1, 3, 16, 16)).astype("float32")}
"""
MODULE = "flow_calibration_samples"


def prepare_pictures(place: Path) -> str:
    save_pictures(place / "photos", 8)
    return "photos"


def prepare_npz_folder(place: Path) -> str:
    save_feeds(place / "feeds", 8, {"x": (1, 3, 16, 16)})
    return "feeds"


def prepare_single_npz(place: Path) -> str:
    np.savez(place / "feeds.npz", x=np.random.default_rng(2).random((8, 1, 3, 16, 16)).astype(np.float32))
    return "feeds.npz"


def prepare_iterable(place: Path) -> str:
    (place / f"{MODULE}.py").write_text(ITERABLE)
    return f"{MODULE}:samples"


@pytest.mark.parametrize(
    ("prepare", "path"),
    [
        (prepare_pictures, "p000.png"),
        (prepare_npz_folder, "f000.npz"),
        (prepare_single_npz, "feeds.npz[0]"),
        (prepare_iterable, f"{MODULE}:samples[0]"),
    ],
    ids=["pictures", "npz-folder", "single-npz", "iterable"],
)
def test_each_form_converts_and_deals_its_samples(prepare: Any, path: str, place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", TENSOR)
    done = fts_convert("net.onnx", "--calib", prepare(place))
    assert done.code == 0, done.err
    files = report_of(place / "net.cpu-int8.fts")["calibration"]["files"]
    assert path in {f["path"] for f in files}
    splits = [f["split"] for f in files]
    assert (splits.count("calibrate"), splits.count("select"), splits.count("verify")) == (4, 2, 2)


def test_a_holdout_of_its_own_verifies(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", TENSOR)
    save_pictures(place / "photos", 3)
    save_pictures(place / "others", 5, first_seed=40)
    assert fts_convert("net.onnx", "--calib", "photos", "--holdout", "others").code == 0
    metrics = report_of(place / "net.cpu-int8.fts")["metrics"]
    assert {m["split"]: m["n"] for m in metrics} == {"select": 1, "verify": 5}


AGE = np.array([[0.5, 1.0, 2.0]], np.float32)


@pytest.fixture
def aged(place: Path) -> Path:
    """A net with a picture and a vector, pictures, and cards for the vector."""
    save_net(place / "two.onnx", TWO_INPUTS)
    save_pictures(place / "photos", 8)
    np.save(place / "ages.npy", np.array([[0.2, 0.5, 1.0], [0.5, 1.0, 2.0], [2.0, 0.1, 1.0]], np.float32))
    (place / "value.toml").write_text("[inputs.age]\nvalue = [0.5, 1.0, 2.0]\n")
    (place / "values.toml").write_text('[inputs.age]\nvalues = "ages.npy"\n')
    (place / "freeze.toml").write_text("[inputs.age]\nvalue = [0.5, 1.0, 2.0]\nfreeze = true\n")
    return place


def picture_in() -> np.ndarray:
    return np.random.default_rng(3).random((1, 3, 16, 16)).astype(np.float32)


def test_a_value_of_the_card_calibrates_and_is_the_default_at_run_time(aged: Path, fts_convert: Run) -> None:
    assert fts_convert("two.onnx", "--calib", "photos", "--card", "value.toml").code == 0
    with fts.load("two.cpu-int8.fts", simulate=True) as model:
        assert [i.name for i in model.inputs] == ["x", "age"]
        left_out = model.infer({"x": picture_in()})["y"]
        assert np.array_equal(left_out, model.infer({"x": picture_in(), "age": AGE})["y"])
        assert not np.array_equal(left_out, model.infer({"x": picture_in(), "age": AGE * 2})["y"])


def test_rows_of_the_card_multiply_the_pictures_and_are_no_default(aged: Path, fts_convert: Run) -> None:
    assert fts_convert("two.onnx", "--calib", "photos", "--card", "values.toml").code == 0
    assert [m["n"] for m in report_of(aged / "two.cpu-int8.fts")["metrics"]] == [2 * 3, 2 * 3]
    with (
        fts.load("two.cpu-int8.fts", simulate=True) as model,
        pytest.raises(FrameError, match="'age' is missing"),
    ):
        model.infer({"x": picture_in()})


def test_a_frozen_value_is_folded_and_no_input_any_more(aged: Path, fts_convert: Run) -> None:
    assert fts_convert("two.onnx", "--calib", "photos", "--card", "value.toml", "-o", "live.fts").code == 0
    assert fts_convert("two.onnx", "--calib", "photos", "--card", "freeze.toml", "-o", "frozen.fts").code == 0
    with fts.load("live.fts", simulate=True) as live, fts.load("frozen.fts", simulate=True) as frozen:
        assert [i.name for i in frozen.inputs] == ["x"]
        difference = np.abs(live.infer({"x": picture_in()})["y"] - frozen.infer({"x": picture_in()})["y"])
    # both are within the budget (30 dB of a range of 1 is 0.03) of the same FP32 net
    assert difference.max() < 2 * 0.03


def test_npz_feeds_both_inputs_without_a_card(aged: Path, fts_convert: Run) -> None:
    save_feeds(aged / "feeds", 8, {"x": (1, 3, 16, 16), "age": (1, 3)})
    done = fts_convert("two.onnx", "--calib", "feeds")
    assert done.code == 0, done.err


def test_preprocessing_of_the_flags_is_what_the_bundle_states(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", TENSOR)
    save_pictures(place / "photos", 4)
    flags = (
        "--color",
        "bgr",
        "--scale",
        "1/127.5",
        "--mean=1,1,1",
        "--std",
        "1,2,4",
        "--layout",
        "nchw",
        "--fit",
        "crop",
    )
    done = fts_convert("net.onnx", "--calib", "photos", *flags)
    assert done.code == 0, done.err
    assert "[default-preprocessing]" not in done.err
    (entry,) = open_bundle(place / "net.cpu-int8.fts").manifest.inputs
    pre = entry.preprocessing
    assert pre is not None
    assert (pre.color, pre.scale, pre.mean, pre.std) == ("bgr", 1 / 127.5, (1.0, 1.0, 1.0), (1.0, 2.0, 4.0))
    assert (pre.layout, pre.fit) == ("nchw", "crop")


def test_a_golden_set_of_your_own_is_what_the_bundle_holds(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", TENSOR)
    save_pictures(place / "photos", 4)
    save_feeds(place / "golden", 3, {"x": (1, 3, 16, 16)})
    assert fts_convert("net.onnx", "--calib", "photos", "--golden", "golden").code == 0
    bundle = open_bundle(place / "net.cpu-int8.fts")
    assert bundle.manifest.golden["samples"] == 3
    assert bundle.manifest.golden["source"] == "given"
