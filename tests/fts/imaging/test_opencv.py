from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fts.imaging.opencv import quiet_opencv


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_without_opencv_the_error_names_both_fixes_and_exits_4():
    result = run(
        "import sys; sys.modules['cv2'] = None\n"
        "from fts.errors import MissingDependencyError\n"
        "try:\n    import fts.imaging.opencv\n"
        "except MissingDependencyError as error:\n    print(error); sys.exit(error.exit_code)\n"
    )
    assert result.returncode == 4
    assert "libgl1 libglib2.0-0" in result.stdout
    assert "pip install opencv-python-headless" in result.stdout


def test_opencv_is_imported_in_one_file_only():
    root = Path(__file__).parents[3]
    packages = ["sdk/fts", "calibration/fts_calibration", "devices/fts_devices", "converters/fts_converters"]
    importing = {
        str(file.relative_to(root))
        for package in packages
        for file in (root / package).rglob("*.py")
        if any(line.strip().startswith(("import cv2", "from cv2")) for line in file.read_text("utf-8").splitlines())
    }
    assert importing == {"sdk/fts/imaging/opencv.py"}


def test_nested_silence_restores_the_log_level_it_found():
    result = run(
        "from fts.imaging import opencv\n"
        "opencv._set_log_level(2)\n"
        "with opencv.quiet_opencv():\n"
        "    with opencv.quiet_opencv():\n        pass\n"
        "    print(opencv._set_log_level(0))\n"
        "print(opencv._set_log_level(2))\n"
    )
    assert result.stdout.split() == ["0", "2"], result.stderr


def test_silence_ends_when_the_block_raises():
    from fts.imaging import opencv

    before = opencv._set_log_level(3)
    try:
        try:
            with quiet_opencv():
                raise KeyError
        except KeyError:
            pass
        assert opencv._set_log_level(3) == 3
    finally:
        opencv._set_log_level(before)
