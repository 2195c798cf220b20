"""What is missing is exit 4 and the line to type; what only converting needs is not asked for by anything else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fts_converters.commands import LATER
from fts_converters.commands.convert import LATER_FLAGS

from .conftest import TARGET, Run, convert_in_process_of_its_own
from .nets import TENSOR, save_net, save_pictures

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("cv2", "numpy", "onnx", "onnx_graphsurgeon", "onnxruntime")

BLOCKER = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "{module}":
            raise ModuleNotFoundError("No module named {module!r}", name="{module}")
sys.meta_path.insert(0, Absent())
"""


def without(module: str, folder: Path) -> dict[str, str]:
    """Environment of a process in which a module cannot be imported."""
    (folder / "sitecustomize.py").write_text(BLOCKER.format(module=module))
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))}


@pytest.mark.parametrize("module", ["onnx", "onnx_graphsurgeon", "onnxruntime", "cv2"])
def test_a_missing_library_is_exit_4_with_the_line_to_type(module: str, tmp_path: Path) -> None:
    work, blocked = tmp_path / "work", tmp_path / "blocked"
    work.mkdir()
    blocked.mkdir()
    save_net(work / "net.onnx", TENSOR)
    save_pictures(work / "photos", 4)
    environment = without(module, blocked)
    done = convert_in_process_of_its_own("net.onnx", *TARGET, "--calib", "photos", cwd=work, **environment)
    assert done.code == 4, done.err
    assert "pip install" in done.err
    assert "Traceback" not in done.err
    assert sorted(path.name for path in work.iterdir()) == ["net.onnx", "photos"]


@pytest.mark.parametrize(
    ("lack", "words"),
    [(OSError(28, "No space left on device"), ("disk is full", "TMPDIR")), (MemoryError(), ("too little memory",))],
    ids=["disk", "memory"],
)
def test_a_full_machine_is_exit_4_and_no_defect_of_ours(
    lack: Exception, words: tuple[str, ...], place: Path, fts_convert: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_net(place / "net.onnx", TENSOR)
    save_pictures(place / "photos", 4)

    def full(*arguments: object, **options: object) -> None:
        raise lack

    monkeypatch.setattr("fts_calibration.metrics.reference_outputs.np.save", full)
    done = fts_convert("net.onnx", "--calib", "photos")
    assert done.code == 4
    assert not [word for word in words if word not in done.err], done.err
    assert "Traceback" not in done.err
    assert sorted(path.name for path in place.iterdir()) == ["net.onnx", "photos"]


@pytest.mark.parametrize(
    ("entry", "arguments"),
    [
        ("main_fts", ["--help"]),
        ("main_fts", ["targets"]),
        ("main_fts", ["run", "--help"]),
        ("main_convert", ["--help"]),
        ("main_convert", ["net.onnx", "--rungs", "256"]),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, list) else value,
)
def test_answers_that_need_no_library_import_none(entry: str, arguments: list[str], tmp_path: Path) -> None:
    code = f"""
import sys
from fts_converters.commands import {entry}
try:
    {entry}({arguments!r})
except SystemExit:
    pass
print("imported:", sorted(set(sys.modules) & set({HEAVY!r})))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported: []"


def test_the_readme_lists_every_flag_and_command_of_later_versions_and_no_other() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("\n## Not in this version\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(--[a-z-]+)`", section)) == set(LATER_FLAGS)
    assert set(re.findall(r"`fts ([a-z]+)`", section)) == set(LATER)
