"""What a conversion has measured is what an app gets: from fts.load, from fts run, and from the golden tensors."""

from __future__ import annotations

import io
from pathlib import Path

import cv2
import numpy as np
import pytest

import fts
from fts.bundle.archive import open_bundle
from fts.engines.onnxruntime_session import open_session

from .conftest import Converted, Run, report_of
from .nets import PICTURE, SAME, TWICE_AS_LARGE, save_net, save_pictures, smooth_picture

# Levels of 255 that an identity in INT8 may be off: half a step of each of its two grids over [0, 1] is one level, and
# resizing to the net and back adds the rounding of two 8-bit pictures.
IDENTITY_LEVELS = 3.0


def psnr_db(a: np.ndarray, b: np.ndarray, peak: float) -> float:
    return float(20 * np.log10(peak / np.sqrt(np.mean((a.astype(np.float64) - b.astype(np.float64)) ** 2))))


def input_of(picture: np.ndarray) -> np.ndarray:
    """What the defaults make of a picture of the net's own size: RGB, planes first, 0..1."""
    return np.ascontiguousarray(np.moveaxis(picture[..., ::-1], -1, 0)[None]).astype(np.float32) / 255.0


def test_the_verified_figures_are_those_of_the_loaded_model(converted: Converted) -> None:
    """Computed again from nothing but the photos of the verify split and the net as it was."""
    report = report_of(converted.bundle)
    names = [f["path"] for f in report["calibration"]["files"] if f["split"] == "verify"]
    original = open_session((converted.folder / "net.onnx").read_bytes())
    frames = [cv2.imread(str(converted.photos / name)) for name in names]
    expected = [original.run({"x": input_of(frame)})[0] for frame in frames]
    peak = float(np.max(expected) - np.min(expected))
    with fts.load(converted.bundle, simulate=True) as model:
        got = [model(frame).tensors["y"] for frame in frames]
    measured = [psnr_db(e, g, peak) for e, g in zip(expected, got, strict=True)]
    (verify,) = [m for m in report["metrics"] if m["split"] == "verify"]
    # Pictures go through a table of float32 in the bundle and through one division here: an input may differ by one ulp
    # and flip a rounding of the grid now and then.
    assert min(measured) == pytest.approx(verify["min"], abs=0.05)
    assert np.mean(measured) == pytest.approx(verify["mean"], abs=0.05)


def test_a_frame_that_nobody_has_seen_is_as_good_as_the_budget(converted: Converted) -> None:
    frame = smooth_picture(seed=77)
    original = open_session((converted.folder / "net.onnx").read_bytes())
    (expected,) = original.run({"x": input_of(frame)})
    with fts.load(converted.bundle, simulate=True) as model:
        out = model(frame)
    picture = np.moveaxis(expected[0], 0, -1)[..., ::-1] * 255.0
    assert psnr_db(picture, out.image, 255.0) >= 30.0  # the default budget of pictures
    assert out.image.dtype == np.uint8
    assert not out.degraded


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _quickly(tmp_path_factory.mktemp("identity"), SAME)


@pytest.fixture(scope="module")
def doubling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _quickly(tmp_path_factory.mktemp("doubling"), TWICE_AS_LARGE)


def _quickly(folder: Path, text: str) -> Path:
    """Convert in this process, without a budget."""
    from fts_converters.commands import main_convert

    save_net(folder / "net.onnx", text)
    save_pictures(folder / "photos", 3)
    out = folder / "net.fts"
    arguments = [folder / "net.onnx", "--target", "cpu-int8", "--calib", folder / "photos", "--budget", "none", "-q",
                 "--no-cache", "-o", out]  # fmt: skip
    assert main_convert([str(a) for a in arguments]) == 0
    return out


@pytest.mark.parametrize(("height", "width"), [(16, 16), (37, 23), (15, 61), (120, 97)])
def test_an_odd_frame_comes_back_in_its_own_size_and_place(identity: Path, height: int, width: int) -> None:
    """A gradient: letterboxed, run through an identity and undone, it is the same gradient up to the resolution."""
    rows, columns = np.mgrid[0:height, 0:width]
    frame = np.stack([rows * 200 // height, columns * 200 // width, 255 - rows * 200 // height], -1).astype(np.uint8)
    with fts.load(identity, simulate=True) as model:
        image = model(frame).image
    assert image.shape == frame.shape
    inner = np.s_[height // 5 : -height // 5, width // 5 : -width // 5]  # resizing clamps a ramp at the border
    error = np.abs(image.astype(float) - frame.astype(float))[inner]
    net_pixel = 200.0 * max(height, width) / 16 / min(height, width)  # levels between two pixels of the net
    assert error.mean() <= IDENTITY_LEVELS + 0.25 * net_pixel


@pytest.mark.parametrize(("height", "width"), [(16, 16), (37, 23), (15, 61)])
def test_an_upscaler_gives_twice_the_frame(doubling: Path, height: int, width: int) -> None:
    frame = smooth_picture(3, height, width)
    with fts.load(doubling, simulate=True) as model:
        out = model(frame)
    assert out.tensors["y"].shape == (1, 3, 32, 32)
    assert out.image.shape == (2 * height, 2 * width, 3)
    if (height, width) == (16, 16):  # every pixel became four of its kind
        expected = np.repeat(np.repeat(frame, 2, axis=0), 2, axis=1)
        assert np.abs(out.image.astype(int) - expected.astype(int)).mean() <= IDENTITY_LEVELS


def test_golden_tensors_hold_by_their_own_rule_when_the_engine_runs_again(converted: Converted) -> None:
    """rms(device - fp32) <= 1.5 * rms(engine - fp32) + 1e-4 * range(fp32), per output over all samples."""
    bundle = open_bundle(converted.bundle)
    with np.load(io.BytesIO(bundle.read("golden.npz")), allow_pickle=False) as archive:
        golden = {key: archive[key] for key in archive.files}
    count = bundle.manifest.golden["samples"]
    assert count >= 1
    with fts.load(converted.bundle, simulate=True) as model:
        device = np.stack([model.infer({"x": golden[f"in/{i}/x"]})["y"] for i in range(count)]).astype(np.float64)
    fp32 = np.stack([golden[f"fp32/{i}/y"] for i in range(count)]).astype(np.float64)
    engine = np.stack([golden[f"engine/{i}/y"] for i in range(count)]).astype(np.float64)

    def rms(a: np.ndarray) -> float:
        return float(np.sqrt(np.mean(a**2)))

    limit = bundle.manifest.golden["limits"]["y"]
    assert limit == pytest.approx(1.5 * rms(engine - fp32) + 1e-4 * (fp32.max() - fp32.min()), rel=1e-9)
    assert rms(device - fp32) <= limit
    assert rms(fp32 * 0.9 - fp32) > limit  # a net that is ten percent off does not pass


def test_golden_pictures_are_nobodys(converted: Converted) -> None:
    """Synthetic: no golden input equals a calibration picture."""
    bundle = open_bundle(converted.bundle)
    assert bundle.manifest.golden["source"] == "synthetic"
    with np.load(io.BytesIO(bundle.read("golden.npz")), allow_pickle=False) as archive:
        golden = [archive[key] for key in archive.files if key.startswith("in/")]
    photos = [input_of(cv2.imread(str(p))) for p in sorted(converted.photos.iterdir())]
    assert min(float(np.abs(g - p).mean()) for g in golden for p in photos) > 0.02


def test_fts_run_on_a_picture_gives_what_the_model_gives(converted: Converted, place: Path, fts: Run) -> None:
    import fts as sdk

    frame = smooth_picture(8, 21, 34)
    cv2.imwrite("odd.png", frame)
    done = fts("run", converted.bundle, "odd.png", "--simulate")
    assert done.code == 0, done.err
    assert done.out == "odd.out.png\n"
    with sdk.load(converted.bundle, simulate=True) as model:
        assert np.array_equal(cv2.imread("odd.out.png"), model(frame).image)


def test_fts_run_on_a_folder_runs_every_picture(converted: Converted, place: Path, fts: Run) -> None:
    done = fts("run", converted.bundle, converted.photos, "-o", "out", "--simulate")
    assert done.code == 0, done.err
    written = sorted(p.name for p in (place / "out").iterdir())
    assert written == sorted(f"{p.stem}.out.png" for p in converted.photos.iterdir())


def test_fts_run_on_a_video_keeps_frames_and_size(converted: Converted, place: Path, fts: Run) -> None:
    writer = cv2.VideoWriter("clip.avi", cv2.VideoWriter_fourcc(*"MJPG"), 10.0, (48, 32))
    for seed in range(5):
        writer.write(smooth_picture(seed, 32, 48))
    writer.release()
    done = fts("run", converted.bundle, "clip.avi", "-o", "out.avi", "--simulate")
    assert done.code == 0, done.err
    reader = cv2.VideoCapture("out.avi")
    frames = []
    while (read := reader.read())[0]:
        frames.append(read[1])
    assert [f.shape for f in frames] == [(32, 48, 3)] * 5


def test_a_net_with_a_vector_input_runs_from_the_command_line(place: Path, fts_convert: Run, fts: Run) -> None:
    from .nets import TWO_INPUTS

    save_net(place / "two.onnx", TWO_INPUTS)
    save_pictures(place / "photos", 4)
    (place / "card.toml").write_text("[inputs.age]\nvalue = [0.5, 1.0, 2.0]\n")
    assert fts_convert("two.onnx", "--calib", "photos", "--card", "card.toml").code == 0
    for name, more in (("default", ()), ("same", ("--input", "age=0.5,1,2")), ("other", ("--input", "age=3,3,3"))):
        done = fts("run", "two.cpu-int8.fts", "photos/p000.png", "-o", f"{name}.npz", *more, "--simulate")
        assert done.code == 0, done.err
    default, same, other = (np.load(f"{n}.npz")["y"] for n in ("default", "same", "other"))
    assert np.array_equal(default, same)
    assert not np.array_equal(default, other)


def test_a_forced_size_reaches_the_app(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE.replace("1,3,16,16", "1,3,high,wide"))
    save_pictures(place / "photos", 4)
    assert fts_convert("net.onnx", "--calib", "photos", "--shape", "x=1x3x24x32").code == 0
    with fts.load("net.cpu-int8.fts", simulate=True) as model:
        assert model.inputs[0].shape == (1, 3, 24, 32)
        assert model(smooth_picture(1, 30, 20)).rung == "24x32"
