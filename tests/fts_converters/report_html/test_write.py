"""Where the page is written: by a conversion into the report folder, and by `fts report`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fts.bundle.write import write_bundle
from fts.vocabulary.manifest import (
    PORTABLE_MEMBER,
    REPORT_MEMBER,
    EngineEntry,
    InputEntry,
    Manifest,
    OutputEntry,
    Requirements,
    encoded_member,
)
from fts.vocabulary.plan import Plan
from fts.vocabulary.tensor_spec import TensorSpec
from fts_converters.commands import main_fts
from fts_converters.report_html import libraries
from fts_converters.report_html.write import write_report_html
from fts_converters.warnings_log import WarningLog

from . import samples

ENGINE = encoded_member("cpu-int8")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle that holds a report; its nets are never opened."""
    needs = Requirements()
    manifest = Manifest(
        format_version=1,
        target="cpu-int8",
        requires=needs,
        members=(),
        inputs=(InputEntry(spec=TensorSpec(name="x", dtype="float32", shape=(1,)), kind="tensor"),),
        outputs=(OutputEntry(spec=TensorSpec(name="y", dtype="float32", shape=(1,)), kind="tensor"),),
        rungs=(),
        engines=(
            EngineEntry(kind="onnxruntime-cpu", member=ENGINE, state="built", precision="int8", requires=needs),
            EngineEntry(kind="onnxruntime-cpu", member=PORTABLE_MEMBER, state="built", precision="fp32"),
        ),
        plan=Plan(target="cpu-int8", dialect="d", nodes=()),
        quality={"met": True, "metrics": [], "budget": "psnr>=30", "integer_mac_share": 0.9},
        golden={"samples": 0, "limits": {}},
        provenance={
            "source": "my net.onnx",
            "tools": {"onnx": "1.0"},
            "options": {"shapes": {"x": [1, 3, 8, 8]}, "budget": "psnr>=30", "min_int8": 0.5},
        },
    )
    report = json.dumps(samples.report()).encode()
    members = {ENGINE: b"e" * 1000, PORTABLE_MEMBER: b"p" * 4000, REPORT_MEMBER: report}
    path = tmp_path / "net.cpu-int8.fts"
    write_bundle(path, manifest, members)
    return path


def test_fts_report_writes_the_page_here_and_prints_its_name(bundle, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main_fts(["report", str(bundle)]) == 0
    printed = capsys.readouterr()
    assert printed.out == "net.cpu-int8.report.html\n"
    assert "no pictures" in printed.err
    text = (tmp_path / "net.cpu-int8.report.html").read_text()
    assert "1.00\u202fkB" in text
    assert "4.0× as much" in text
    command = (
        "fts-convert 'my net.onnx' --target cpu-int8 --calib PATH --shape x=1x3x8x8 --budget 'psnr>=30' --min-int8 0.5"
    )
    assert command.replace("'", "&#39;").replace(">", "&gt;") in text
    assert "bundles hold no paths" in text


def test_fts_report_takes_pictures_timings_and_a_profile(bundle, tmp_path):
    folder = tmp_path / "net.cpu-int8.report"
    folder.mkdir()
    for role in ("input", "fp32", "engine"):
        (folder / f"verify_0_{role}.png").write_bytes(samples.png(8, 1))
    (folder / "timings.json").write_text('{"calibrate": 3.25}')
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps(samples.profile(50)))
    out = tmp_path / "page.html"
    assert main_fts(["report", str(bundle), "--profile", str(profile), "-o", str(out)]) == 0
    text = out.read_text()
    assert text.count("data:image/png") == 3
    assert "calibrate 3.2\u202fs" in text
    assert "12.31\u202fms" in text


@pytest.mark.parametrize("text", ["{", "[]", '{"schema_version": 1}', "3"])
def test_what_is_no_profile_is_wrong_input(bundle, tmp_path, text, capsys):
    (tmp_path / "p.json").write_text(text)
    assert main_fts(["report", str(bundle), "--profile", str(tmp_path / "p.json"), "-o", str(tmp_path / "o.html")]) == 2
    assert "p.json" in capsys.readouterr().err
    assert not (tmp_path / "o.html").exists()


@pytest.mark.parametrize("out", ["page.txt", "nowhere/page.html"])
def test_a_wrong_output_name_is_wrong_input(bundle, tmp_path, out, capsys):
    assert main_fts(["report", str(bundle), "-o", str(tmp_path / out)]) == 2
    assert out in capsys.readouterr().err


def test_without_its_libraries_fts_report_ends_with_4_and_the_line_to_type(bundle, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: None)
    assert main_fts(["report", str(bundle), "-o", str(tmp_path / "o.html")]) == 4
    assert "pip install 'fts-edge[report]'" in capsys.readouterr().err
    assert not (tmp_path / "o.html").exists()


def write(bundle: Path, folder: Path) -> WarningLog:
    warnings = WarningLog()
    arguments = ("net.onnx", "--calib", "/data/my photos")
    write_report_html(folder, bundle=bundle, title="b.fts", arguments=arguments, timings_s={}, warnings=warnings)
    return warnings


def test_a_conversion_tells_its_command_as_typed(bundle, tmp_path):
    assert write(bundle, tmp_path).entries == ()
    text = (tmp_path / "report.html").read_text()
    assert "fts-convert net.onnx --calib &#39;/data/my photos&#39;" in text
    assert "The command as it was typed." in text


def test_a_conversion_without_the_libraries_warns_and_leaves_no_old_page(bundle, tmp_path, monkeypatch):
    (tmp_path / "report.html").write_text("of an earlier conversion")
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: None if name == "jinja2" else object())
    ((warning_id, text),) = write(bundle, tmp_path).entries
    assert warning_id == "report-html-skipped"
    assert "jinja2 missing" in text
    assert "pip install 'fts-edge[report]'" in text
    assert not (tmp_path / "report.html").exists()


def test_help_of_fts_report_imports_no_library():
    code = (
        "import sys\nfrom fts_converters.commands import main_fts\n"
        "try:\n    main_fts(['report', '--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'cv2', 'numpy', 'onnx', 'jinja2', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_page_is_made_without_onnx():
    code = (
        "import sys, fts_converters.report_html.render; print(sorted({'onnx', 'onnx_graphsurgeon'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
