"""Wrong input is exit 2 with a sentence that names it, and leaves nothing behind."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fts_converters.commands import main_convert
from fts_converters.commands.convert import LATER_FLAGS

from .conftest import Run
from .nets import CONV, TENSOR, TWO_INPUTS, save_feeds, save_net, save_pictures


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """One wrong command line: what follows fts-convert, and words that the message must hold."""

    id: str
    arguments: str
    words: tuple[str, ...]


PHOTOS = "net.onnx --calib photos"
WRONG = (
    # the command line
    Wrong(id="no-calib", arguments="net.onnx", words=("--calib", "required")),
    Wrong(id="no-model", arguments="--calib photos", words=("MODEL", "required")),
    Wrong(id="unknown-flag", arguments=f"{PHOTOS} --sha x=1x3x16x16", words=("unrecognized", "--sha")),
    Wrong(id="min-int8", arguments=f"{PHOTOS} --min-int8 2", words=("--min-int8", "'2'", "between 0 and 1")),
    Wrong(id="budget-form", arguments=f"{PHOTOS} --budget psnr>40", words=("psnr>40", "METRIC>=NUMBER")),
    Wrong(id="budget-empty", arguments=f"{PHOTOS} --budget=", words=("--budget ''", "METRIC>=NUMBER")),
    Wrong(id="budget-nan", arguments=f"{PHOTOS} --budget psnr>=nan", words=("psnr>=nan", "METRIC>=NUMBER")),
    Wrong(id="budget-metric", arguments=f"{PHOTOS} --budget pnsr>=40", words=("'pnsr'", "psnr, sqnr, ssim, cosine")),
    Wrong(id="budget-task", arguments=f"{PHOTOS} --budget drop<=0.5%", words=("drop", "no metric on the card")),
    Wrong(id="shape-form", arguments=f"{PHOTOS} --shape x", words=("--shape x", "NAME=1x3x256x256")),
    Wrong(id="shape-zero", arguments=f"{PHOTOS} --shape x=1x3x0x16", words=("1x3x0x16", "1 or more")),
    Wrong(id="shape-not-ascii", arguments=f"{PHOTOS} --shape x=1x3x²x16", words=("1x3x²x16", "1 or more")),
    Wrong(id="shape-name", arguments=f"{PHOTOS} --shape xx=1x3x16x16", words=("--shape", "'xx'", "did you mean 'x'")),
    Wrong(id="shape-rank", arguments=f"{PHOTOS} --shape x=3x16x16", words=("3 axes", "4", "1x3x16x16")),
    Wrong(id="shape-twice", arguments=f"{PHOTOS} --shape x=1x3x16x16 --shape x=1x3x32x32", words=("'x'", "twice")),
    Wrong(id="shape-huge", arguments=f"{PHOTOS} --shape x=1x3x999999x999999", words=("'x'", "1x3x999999x999999")),
    Wrong(id="shape-contradicts", arguments="net.onnx --calib four --shape x=1x4x16x16", words=("x=1x4x16x16", "node")),
    Wrong(id="mean-text", arguments=f"{PHOTOS} --mean a,b,c", words=("--mean", "'a,b,c'", "--mean=-1")),
    Wrong(id="mean-count", arguments=f"{PHOTOS} --mean 1,2", words=("mean has 2 values", "1 or 3")),
    Wrong(id="mean-nan", arguments=f"{PHOTOS} --mean nan,0,0", words=("mean = nan", "finite")),
    Wrong(id="std-zero", arguments=f"{PHOTOS} --std 0,1,1", words=("std", "holds 0")),
    Wrong(id="scale-zero", arguments=f"{PHOTOS} --scale 0", words=("scale 0", "1/255")),
    Wrong(id="scale-text", arguments=f"{PHOTOS} --scale 1/0", words=("--scale", "'1/0'", "1/255")),
    Wrong(id="colour", arguments=f"{PHOTOS} --color gray", words=("'gray'", "3 channel")),
    Wrong(id="layout", arguments=f"{PHOTOS} --layout nhwc", words=("16 channels", "nhwc", "1x3x16x16")),
    Wrong(id="several-targets", arguments=f"{PHOTOS} --target cpu-int8,orin-int8", words=("several targets",)),
    Wrong(id="skip-pass", arguments=f"{PHOTOS} --skip-pass fold_batchnrom", words=("fold_batchnrom", "fold_batchnorm")),
    # the model
    Wrong(id="model-missing", arguments="nett.onnx --calib photos", words=("'nett.onnx'", "no such file")),
    Wrong(id="model-folder", arguments="photos --calib photos", words=("model 'photos'", "cannot be read")),
    Wrong(id="model-text", arguments="notes.txt --calib photos", words=("'notes.txt'", "not an ONNX file")),
    Wrong(id="model-empty", arguments="empty.onnx --calib photos", words=("'empty.onnx'", "not an ONNX file")),
    Wrong(id="unknown-size", arguments="sizes.onnx --calib photos", words=("'x'", "unknown high, wide", "--shape x=1x3x")),
    Wrong(id="batch-of-two", arguments="net.onnx --calib photos --shape x=2x3x16x16", words=("batch 2", "x=1x3x16x16")),
    Wrong(id="repeated-output", arguments="repeated.onnx --calib photos", words=("output 'y'", "more than once")),
    Wrong(id="output-without-elements", arguments="nothing.onnx --calib photos", words=("'z'", "1x0x16x16")),
    Wrong(id="loop", arguments="loop.onnx --calib photos", words=("'again'", "Loop", "trip count is computed from the input")),
    # the calibration data
    Wrong(id="calib-missing", arguments="net.onnx --calib phot", words=("--calib phot", "no usable picture")),
    Wrong(id="calib-empty", arguments="net.onnx --calib nothing", words=("--calib nothing", "no usable picture")),
    Wrong(id="calib-file", arguments="net.onnx --calib notes.txt", words=("notes.txt", "neither a folder nor an .npz")),
    Wrong(id="calib-picture", arguments="net.onnx --calib photos/p000.png", words=("neither a folder nor an .npz",)),
    Wrong(id="three-files", arguments="net.onnx --calib three", words=("found 3", "at least 4", "--budget none")),
    Wrong(id="two-files", arguments="net.onnx --calib two --holdout other", words=("found 2", "at least 3")),
    Wrong(id="leak", arguments=f"{PHOTOS} --holdout leak", words=("--holdout leak", "again.png = p000.png", "Remove")),
    Wrong(id="leak-unbudgeted", arguments=f"{PHOTOS} --holdout leak --budget none", words=("again.png = p000.png",)),
    Wrong(id="holdout-missing", arguments=f"{PHOTOS} --holdout nope", words=("--holdout nope", "no usable picture")),
    Wrong(id="golden-missing", arguments=f"{PHOTOS} --golden nope", words=("--golden nope", "no usable picture")),
    Wrong(id="npz-key", arguments="net.onnx --calib keys", words=("['z']", "['x']", "missing")),
    Wrong(id="npz-shape", arguments="net.onnx --calib low", words=("'x'", "(1, 3, 8, 16)", "(1, 3, 16, 16)")),
    Wrong(id="npz-no-sample-axis", arguments="net.onnx --calib one.npz", words=("sample axis", "x[None]")),
    Wrong(id="npz-no-samples", arguments="net.onnx --calib none.npz", words=("--calib none.npz", "no usable")),
    Wrong(id="iterable", arguments="net.onnx --calib no.module:here", words=("no.module:here", "ModuleNotFoundError")),
    Wrong(id="second-input", arguments="two.onnx --calib photos", words=("'age'", "[inputs.age]", ".npz")),
    Wrong(id="nan-data", arguments="net.onnx --calib nan", words=("'x'", "NaN")),
    # the card
    Wrong(id="card-missing", arguments=f"{PHOTOS} --card no.toml", words=("'no.toml'", "no such file")),
    Wrong(id="card-folder", arguments=f"{PHOTOS} --card photos", words=("card 'photos'", "cannot be read")),
    Wrong(id="card-not-toml", arguments=f"{PHOTOS} --card notes.txt", words=("'notes.txt'", "not valid TOML")),
    Wrong(id="card-input", arguments=f"{PHOTOS} --card input.toml", words=("'xx'", "did you mean 'x'")),
    Wrong(id="card-output", arguments=f"{PHOTOS} --card output.toml", words=("'yy'", "did you mean 'y'")),
    Wrong(id="card-pad", arguments=f"{PHOTOS} --card pad.toml", words=("pad_value = 'grey'", "0 to 255")),
    Wrong(id="card-scale", arguments=f"{PHOTOS} --card scale.toml", words=("scale = 'small'", "finite number")),
    Wrong(id="card-range", arguments=f"{PHOTOS} --card range.toml", words=("[outputs.y]", "inf", "finite")),
    Wrong(id="card-value", arguments="two.onnx --calib photos --card value.toml", words=("[inputs.age]", "1x3")),
    # the place of the output
    Wrong(id="out-suffix", arguments=f"{PHOTOS} -o out.zip", words=("-o out.zip", ".fts")),
    Wrong(id="out-below-a-file", arguments=f"{PHOTOS} -o notes.txt/out.fts", words=("notes.txt", "cannot be written")),
    Wrong(id="out-read-only", arguments=f"{PHOTOS} -o /proc/nowhere/out.fts", words=("/proc", "cannot be written")),
    Wrong(id="out-taken", arguments=f"{PHOTOS} -o taken/", words=("net.cpu-int8.fts", "is a folder")),
    Wrong(id="out-report-taken", arguments=f"{PHOTOS} -o reported.fts", words=("reported.report", "is a file")),
)  # fmt: skip


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All inputs, right and wrong; every test gets a copy."""
    folder = tmp_path_factory.mktemp("shelf")
    save_net(folder / "net.onnx", TENSOR)
    save_net(folder / "two.onnx", TWO_INPUTS)
    save_net(folder / "sizes.onnx", TENSOR.replace("1,3,16,16", "1,3,high,wide"))
    save_net(
        folder / "repeated.onnx", TENSOR.replace("(float[1,3,16,16] y)", "(float[1,3,16,16] y, float[1,3,16,16] y)")
    )
    loop = f"""net (float[1,3,16,16] x) => (float[1,3,16,16] y) {{ s = ReduceSum<keepdims=0>(x) m = Cast<to=7>(s)
        c = {CONV}(x, w) [again] y = Loop<body = b (int64 i, bool k, float[1,3,16,16] p) => (bool q, float[1,3,16,16] r) {{
        q = Identity(k) r = Relu(p) }}>(m, "", c) }}"""
    save_net(folder / "loop.onnx", loop)
    nothing = f"""net (float[1,3,16,16] x) => (float[1,3,16,16] y, float[1,0,16,16] z) {{
        y = {CONV}(x, w) at = Constant<value_ints=[0]>() axis = Constant<value_ints=[1]>() z = Slice(y, at, at, axis) }}"""
    save_net(folder / "nothing.onnx", nothing)
    (folder / "notes.txt").write_text("these are = notes [")
    (folder / "empty.onnx").write_bytes(b"")
    save_pictures(folder / "photos", 4)
    save_pictures(folder / "three", 3)
    save_pictures(folder / "two", 2)
    save_pictures(folder / "other", 3, first_seed=50)
    save_pictures(folder / "leak", 2, first_seed=60)
    shutil.copyfile(folder / "photos/p000.png", folder / "leak/again.png")
    (folder / "nothing").mkdir()
    save_feeds(folder / "keys", 4, {"z": (1, 3, 16, 16)})
    save_feeds(folder / "low", 4, {"x": (1, 3, 8, 16)})
    save_feeds(folder / "four", 4, {"x": (1, 4, 16, 16)})
    np.savez(folder / "one.npz", x=np.zeros((1, 3, 16, 16), np.float32))
    np.savez(folder / "none.npz", x=np.zeros((0, 1, 3, 16, 16), np.float32))
    save_feeds(folder / "nan", 3, {"x": (1, 3, 16, 16)})
    np.savez(folder / "nan/f.npz", x=np.full((1, 3, 16, 16), np.nan, np.float32))
    cards = {
        "input": '[inputs.xx]\nkind = "image"',
        "output": '[outputs.yy]\nkind = "image"',
        "pad": '[inputs.x]\npad_value = "grey"',
        "scale": '[inputs.x]\nscale = "small"',
        "range": '[outputs.y]\nkind = "image"\nrange = [-inf, inf]',
        "value": "[inputs.age]\nvalue = [1.0, 2.0]",
    }
    for name, text in cards.items():
        (folder / f"{name}.toml").write_text(text + "\n")
    (folder / "taken/net.cpu-int8.fts").mkdir(parents=True)
    (folder / "reported.report").write_text("mine")
    return folder


def everything_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.id)
def test_is_exit_2_names_what_is_wrong_and_leaves_nothing(
    wrong: Wrong, shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fts_convert: Run,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    place = tmp_path / "place"
    shutil.copytree(shelf, place)
    monkeypatch.chdir(place)
    before = everything_in(place)
    arguments = wrong.arguments.split(" ")
    done = fts_convert(*arguments) if "--target" not in arguments else _own_target(arguments, capsys)
    assert done.code == 2, done.err
    assert not [word for word in wrong.words if word not in done.err], done.err
    assert "Traceback" not in done.err
    assert not done.out
    assert everything_in(place) == before


def _own_target(arguments: list[str], capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    from .conftest import _in_process

    return _in_process(main_convert, tuple(arguments), capsys)


@pytest.mark.parametrize(
    ("target", "words"),
    [("cpu-int", ("'cpu-int'", "did you mean 'cpu-int8'")), ("orin-int8", ("'orin-int8'", "known targets"))],
)
def test_unknown_target_names_those_there_are(
    target: str,
    words: tuple[str, ...],
    shelf: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(shelf)
    before = everything_in(shelf)
    done = _own_target(["net.onnx", "--calib", "photos", "--target", target], capsys)
    assert done.code == 2
    assert not [word for word in (*words, "cpu-int8") if word not in done.err], done.err
    assert everything_in(shelf) == before


@pytest.mark.parametrize("spelling", ["{flag}", "{flag} 1", "{flag}=1"], ids=["alone", "value", "equals"])
@pytest.mark.parametrize("flag", sorted(LATER_FLAGS))
def test_flags_of_later_versions_say_so(flag: str, spelling: str, fts_convert: Run) -> None:
    done = fts_convert("net.onnx", "--calib", "photos", *spelling.format(flag=flag).split(" "))
    assert done.code == 2
    assert f"{flag}: {LATER_FLAGS[flag]}" in done.err
    assert "not in this version" in done.err


def test_an_older_bundle_survives_a_wrong_run(shelf: Path, tmp_path: Path, fts_convert: Run) -> None:
    bundle = tmp_path / "older.fts"
    bundle.write_bytes(b"older")
    assert fts_convert(shelf / "net.onnx", "--calib", shelf / "three", "-o", bundle).code == 2
    assert bundle.read_bytes() == b"older"
    assert everything_in(tmp_path) == {"older.fts"}


def test_a_bundle_that_cannot_be_written_leaves_no_report_folder(
    shelf: Path, tmp_path: Path, fts_convert: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, at the last step."""
    import fts.bundle.write as write

    def no_space(path: Path, content: object) -> None:
        if "draft" not in path.name:
            raise OSError(28, "No space left on device")
        original(path, content)  # type: ignore[arg-type]

    original = write._write_archive
    monkeypatch.setattr(write, "_write_archive", no_space)
    done = fts_convert(shelf / "net.onnx", "--calib", shelf / "photos", "-o", tmp_path / "out.fts")
    assert done.code == 2
    assert "No space left on device" in done.err
    assert everything_in(tmp_path) == set()
