from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from fts.commands import run_source
from fts.commands.run import main


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def photo(tmp_path, frame) -> Path:
    path = tmp_path / "photo.png"
    cv2.imwrite(str(path), frame)
    return path


@pytest.fixture
def square(frame) -> np.ndarray:
    return frame[:32, :32].copy()


@pytest.fixture
def aged(kit, tmp_path) -> str:
    return str(kit.aged().write(tmp_path / "aged.fts"))


@pytest.fixture
def tensors_only(kit, tmp_path) -> str:
    return str(kit.Recipe(outputs=(kit.tensor_output("y", (1, 3, 32, 32)),)).write(tmp_path / "tensors.fts"))


def movie(path: Path, grays: list[int], size_wh: tuple[int, int] = (32, 32)) -> Path:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10.0, size_wh)
    for gray in grays:
        writer.write(np.full((size_wh[1], size_wh[0], 3), gray, np.uint8))
    writer.release()
    return path


def grays_of(path: Path) -> list[int]:
    capture = cv2.VideoCapture(str(path))
    grays = []
    while (read := capture.read())[0]:
        grays.append(round(float(read[1].mean())))
    return grays


# --- pictures ---------------------------------------------------------------------------------------------------------


def test_a_picture_goes_beside_the_working_folder_by_default(bundle, photo, square, capsys, empty_folder):
    cv2.imwrite(str(photo), square)
    assert main([str(bundle), str(photo)]) == 0
    np.testing.assert_array_equal(cv2.imread("photo.out.png"), 255 - square)
    captured = capsys.readouterr()
    assert captured.out == "photo.out.png\n"
    assert "onnxruntime-cpu int8" in captured.err
    assert list(empty_folder.iterdir()) == [empty_folder / "photo.out.png"]


def test_a_picture_keeps_its_size(bundle, photo, frame, tmp_path):
    assert main([str(bundle), str(photo), "-o", str(tmp_path / "new.bmp")]) == 0
    assert cv2.imread(str(tmp_path / "new.bmp")).shape == frame.shape


def test_json_is_one_object_on_stdout(bundle, photo, capsys):
    assert main([str(bundle), str(photo), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["bundle"] == "net.cpu-int8.fts"
    assert report["target"] == "cpu-int8"
    assert report["evidence"]["tag"] == "measured"
    assert report["failed"] == []
    assert report["results"][0]["output"] == "photo.out.png"
    assert report["results"][0]["age_ms"] > 0


def test_a_net_without_a_picture_gives_an_npz(tensors_only, photo, square):
    cv2.imwrite(str(photo), square)
    assert main([tensors_only, str(photo)]) == 0
    with np.load("photo.out.npz") as file:
        expected = 1 - square[None, :, :, ::-1].transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255)
        np.testing.assert_allclose(file["y"], expected, atol=np.finfo(np.float32).eps)


def test_a_folder_is_done_to_the_end_and_the_broken_picture_is_reported(bundle, tmp_path, square, capsys):
    folder = tmp_path / "photos"
    folder.mkdir()
    cv2.imwrite(str(folder / "a.png"), square)
    (folder / "b.png").write_bytes(b"broken")
    cv2.imwrite(str(folder / "c.png"), 255 - square)
    cv2.imwrite(str(folder / "d.png"), square)
    cv2.imwrite(str(folder / "d.bmp"), square)
    (folder / "notes.txt").write_text("x")
    assert main([str(bundle), str(folder), "--json"]) == 2
    names = sorted(p.name for p in Path("photos.out").iterdir())
    assert names == ["a.out.png", "c.out.png", "d.bmp.out.png", "d.png.out.png"]
    np.testing.assert_array_equal(cv2.imread("photos.out/c.out.png"), square)
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert [Path(f["source"]).name for f in report["failed"]] == ["b.png"]
    assert len(report["results"]) == 4
    assert "failed" in captured.err
    assert "1 of 5 pictures failed" in captured.err
    assert "skipped" in captured.err
    assert "notes.txt" in captured.err


def test_names_outside_ascii_work(bundle, tmp_path, square):
    photo = tmp_path / "Bücher 写真.png"
    photo.write_bytes(cv2.imencode(".png", square)[1].tobytes())
    assert main([str(bundle), str(photo)]) == 0
    assert Path("Bücher 写真.out.png").exists()


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("none.png", None, "none.png"),
        ("broken.png", b"broken", "broken.png"),
        ("broken.mp4", b"broken", "broken.mp4: cannot be opened. It is neither a picture nor a video"),
    ],
)
def test_a_source_that_cannot_be_read_is_exit_2_with_its_name(
    bundle, tmp_path, capsys, empty_folder, name, content, text
):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert main([str(bundle), str(tmp_path / name)]) == 2
    assert text in capsys.readouterr().err
    assert list(empty_folder.iterdir()) == []


def test_an_empty_folder_is_exit_2(bundle, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main([str(bundle), str(tmp_path / "empty")]) == 2
    assert "no picture in this folder" in capsys.readouterr().err


# --- bundles and flags ------------------------------------------------------------------------------------------------


def test_a_damaged_bundle_is_exit_2(bundle, photo, capsys):
    os.truncate(bundle, 100)
    assert main([str(bundle), str(photo)]) == 2
    assert "fts run: error: net.cpu-int8.fts: damaged or incomplete" in capsys.readouterr().err


def test_a_bundle_below_budget_is_exit_3_unless_allowed(kit, tmp_path, photo, capsys):
    path = str(kit.Recipe(met=False).write(tmp_path / "low.fts"))
    assert main([path, str(photo)]) == 3
    assert "--allow-below-budget" in capsys.readouterr().err
    assert main([path, str(photo), "--allow-below-budget"]) == 0


def test_a_bundle_for_another_device_warns_simulates_or_is_exit_4(kit, tmp_path, photo, capsys):
    path = str(kit.Recipe(target="orin-int8", kind="tensorrt").write(tmp_path / "net.orin-int8.fts"))
    assert main([path, str(photo)]) == 0
    assert "fts run: warning: [fallback] net.orin-int8.fts: the engine of target orin-int8" in capsys.readouterr().err
    assert main([path, str(photo), "--simulate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["evidence"]["tag"] == "simulated"
    assert main([path, str(photo), "--strict"]) == 4


def test_an_input_is_a_number_a_list_or_a_file(aged, photo, tmp_path):
    np.save(tmp_path / "age.npy", np.float32([[3]]))
    for value, twice in (("2", 4), ("0.5", 1), (str(tmp_path / "age.npy"), 6)):
        assert main([aged, str(photo), "--input", f"age={value}", "-o", "out.npz"]) == 0
        with np.load("out.npz") as file:
            assert file["twice"].item() == twice


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ([], "aged.fts: needs --input age=VALUE (float32 [1, 1])"),
        (["--input", "agee=2"], "expected NAME=VALUE with NAME one of the tensor inputs: age"),
        (["--input", "x=2"], "one of the tensor inputs: age"),
        (["--input", "age=old"], "found 'old', expected float32 numbers"),
        (["--input", "age=1,2"], r"input 'age': found 1 axes (2,), expected 2: (1, 1)"),
        (["--input", "age=none.npy"], "none.npy cannot be read"),
        (["--input", "age=1", "--input", "age=2"], "age is given twice"),
        (["--input", "age=1", "-o", "out.gif"], "-o out.gif: found '.gif', expected the suffix of a picture"),
        (["--input", "age=1", "-o", "."], "found a folder, expected a file name"),
        (["--input", "age=1", "--frames", "3"], "--frames is for a video or a camera"),
    ],
)
def test_a_flag_that_does_not_fit_is_exit_2_before_anything_is_written(aged, photo, capsys, empty_folder, flags, text):
    assert main([aged, str(photo), *flags]) == 2
    assert text in capsys.readouterr().err
    assert list(empty_folder.iterdir()) == []


def test_a_pickled_input_file_is_not_opened(aged, photo, tmp_path, capsys):
    np.save(tmp_path / "age.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert main([aged, str(photo), "--input", f"age={tmp_path / 'age.npy'}"]) == 2
    assert "cannot be read as .npy" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--threads", "0"], ["--frames", "-1"], ["--threads", "x"], []])
def test_argparse_errors_are_exit_2(bundle, flags, capsys):
    with pytest.raises(SystemExit) as caught:
        main([str(bundle), *flags] if not flags else [str(bundle), "x.png", *flags])
    assert caught.value.code == 2
    assert capsys.readouterr().err


def test_help_has_examples_and_exit_codes(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert "examples:" in out
    assert "exit codes:" in out


# --- video ------------------------------------------------------------------------------------------------------------

# MJPG and mp4v are lossy; flat grey frames come through within this.
CODEC_LEVELS = 4


@pytest.mark.parametrize("suffix", [".avi", ".mp4"])
def test_every_frame_of_a_video_comes_out_in_order(bundle, tmp_path, capsys, suffix):
    clip = movie(tmp_path / "clip.avi", [20 * i for i in range(10)])
    out = tmp_path / f"out{suffix}"
    assert main([str(bundle), str(clip), "-o", str(out), "--json"]) == 0
    np.testing.assert_allclose(grays_of(out), [255 - 20 * i for i in range(10)], atol=CODEC_LEVELS)
    assert json.loads(capsys.readouterr().out)["results"][0]["frames"] == 10


def test_a_video_is_called_mp4_by_default_and_stops_after_frames(bundle, tmp_path, empty_folder):
    clip = movie(tmp_path / "clip.avi", [100] * 8)
    assert main([str(bundle), str(clip), "--frames", "3"]) == 0
    assert list(empty_folder.iterdir()) == [empty_folder / "clip.out.mp4"]
    assert len(grays_of(Path("clip.out.mp4"))) == 3


def test_a_video_through_a_net_without_a_picture_gives_one_npz(tensors_only, tmp_path):
    clip = movie(tmp_path / "clip.avi", [0, 255, 0])
    assert main([tensors_only, str(clip)]) == 0
    with np.load("clip.out.npz") as file:
        assert file["y"].shape == (3, 1, 3, 32, 32)
        np.testing.assert_allclose(file["y"].mean(axis=(1, 2, 3, 4)), [1, 0, 1], atol=CODEC_LEVELS / 255)


def test_a_video_needs_the_name_of_a_video(bundle, tmp_path, capsys, empty_folder):
    clip = movie(tmp_path / "clip.avi", [0])
    assert main([str(bundle), str(clip), "-o", "out.png"]) == 2
    assert "expected .mp4, .avi or .npz" in capsys.readouterr().err
    assert list(empty_folder.iterdir()) == []


def test_a_failing_frame_leaves_no_video(bundle, tmp_path, empty_folder, monkeypatch):
    from fts.errors import EngineError
    from fts.model import Model

    real, calls = Model.infer, []

    def fail_third(self, feeds):
        calls.append(1)
        if len(calls) == 3:
            raise EngineError("third")
        return real(self, feeds)

    monkeypatch.setattr(Model, "infer", fail_third)
    clip = movie(tmp_path / "clip.avi", [0] * 5)
    assert main([str(bundle), str(clip)]) == 2
    assert list(empty_folder.iterdir()) == []


class FakeCapture:
    """A camera that gives grey frames without end, and an interrupt where told."""

    interrupt_after = 10**9
    opened: object = None

    def __init__(self, target: object) -> None:
        FakeCapture.opened = target
        self._count = 0

    def isOpened(self) -> bool:
        return True

    def get(self, _: int) -> float:
        return 0.0

    def read(self) -> tuple[bool, np.ndarray]:
        self._count += 1
        if self._count > FakeCapture.interrupt_after:
            raise KeyboardInterrupt
        return True, np.full((32, 32, 3), 50, np.uint8)

    def release(self) -> None:
        pass


@pytest.fixture
def camera(monkeypatch):
    class Cv2:
        CAP_PROP_FPS = cv2.CAP_PROP_FPS
        CAP_PROP_FRAME_COUNT = cv2.CAP_PROP_FRAME_COUNT
        VideoCapture = FakeCapture

    monkeypatch.setattr(run_source, "cv2", Cv2)
    monkeypatch.setattr(FakeCapture, "interrupt_after", 10**9)
    return FakeCapture


def test_a_whole_number_is_a_camera(bundle, camera):
    assert main([str(bundle), "1", "--frames", "4"]) == 0
    assert camera.opened == 1
    np.testing.assert_allclose(grays_of(Path("camera1.out.mp4")), [205] * 4, atol=CODEC_LEVELS)


def test_an_interrupt_keeps_the_frames_that_were_finished(bundle, camera, monkeypatch, capsys):
    monkeypatch.setattr(camera, "interrupt_after", 5)
    assert main([str(bundle), "0", "-o", "me.avi"]) == 130
    assert len(grays_of(Path("me.avi"))) == 5
    captured = capsys.readouterr()
    assert captured.out == "me.avi\n"
    assert "interrupted" in captured.err


def test_an_interrupt_before_the_first_frame_leaves_nothing(bundle, camera, monkeypatch, empty_folder):
    monkeypatch.setattr(camera, "interrupt_after", 0)
    assert main([str(bundle), "0"]) == 130
    assert list(empty_folder.iterdir()) == []


def test_a_camera_that_is_not_there_is_exit_2(bundle, capsys):
    assert main([str(bundle), "97"]) == 2
    assert "camera 97: cannot be opened" in capsys.readouterr().err


def test_ctrl_c_on_the_real_process_ends_cleanly(bundle, tmp_path, empty_folder):
    clip = movie(tmp_path / "clip.avi", [60] * 3000, (320, 240))
    code = "import sys\nfrom fts.commands.run import main\nsys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, bundle, clip, "-o", "out.avi"], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not any(p.stat().st_size > 20_000 for p in empty_folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    assert [p.name for p in empty_folder.iterdir()] == ["out.avi"]
    assert 0 < len(grays_of(Path("out.avi"))) < 3000


# --- progress ---------------------------------------------------------------------------------------------------------


def test_progress_is_redrawn_on_a_terminal_and_plain_elsewhere(monkeypatch, capsys):
    from fts.commands.progress import Progress

    for terminal, expected in ((False, "pictures: 2/2\n"), (True, "\rpictures: 2/2\n")):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        with Progress("pictures", 2) as progress:
            progress.update(1)
            progress.update(2)
        assert capsys.readouterr().err == expected
