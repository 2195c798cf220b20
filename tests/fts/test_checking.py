"""fts check on a bundle that fts-convert made, and on bundles that were changed in one way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from fts.bundle.archive import open_bundle
from fts.bundle.tensors_npz import arrays_from_npz, npz_bytes
from fts.bundle.write import write_bundle
from fts.checking import Finding, check_bundle
from fts.commands.check import main
from fts.imaging.decode import write_image
from fts.vocabulary.manifest import GOLDEN_MEMBER, Manifest, encoded_member
from fts_converters.commands import main_convert

SIDE = 24


@pytest.fixture(scope="module")
def bundle_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small net of three channels, converted without a budget."""
    folder = tmp_path_factory.mktemp("check")
    rng = np.random.default_rng(3)
    weights = {"w1": rng.normal(0, 0.3, (8, 3, 3, 3)), "w2": rng.normal(0, 0.2, (3, 8, 3, 3))}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1] * 4, name="one"),
            helper.make_node("Relu", ["a"], ["b"], name="relu"),
            helper.make_node("Conv", ["b", "w2"], ["y"], pads=[1] * 4, name="two"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    calib = folder / "calib"
    calib.mkdir()
    for i in range(4):
        write_image(calib / f"{i}.png", rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8))
    bundle = folder / "net.fts"
    arguments = [str(folder / "net.onnx"), "--target", "cpu-int8", "--calib", str(calib), "--budget", "none"]
    assert main_convert([*arguments, "-o", str(bundle), "--no-cache", "-q"]) == 0
    return bundle


def changed(source: Path, target: Path, *, manifest: Any = None, members: Mapping[str, bytes] | None = None) -> Path:
    """A whole and valid copy with another manifest or other members."""
    bundle = open_bundle(source)
    old = replace(bundle.manifest, members=())
    contents = {m.path: bundle.read(m.path) for m in bundle.manifest.members}
    write_bundle(target, manifest(old) if manifest else old, {**contents, **(members or {})})
    return target


def statuses(findings: tuple[Finding, ...]) -> dict[str, str]:
    return {f.check: f.status for f in findings}


def test_a_fresh_bundle_passes_every_check(bundle_path: Path) -> None:
    findings = check_bundle(bundle_path, simulate=True)
    assert statuses(findings) == {"members": "ok", "golden": "ok", "portable": "ok", "preprocessing": "ok"}


def test_weights_that_were_exchanged_fail_the_golden_check(bundle_path: Path, tmp_path: Path) -> None:
    bundle = open_bundle(bundle_path)
    member = encoded_member("cpu-int8")
    data = bytearray(bundle.read(member))
    weights = next(
        t.raw_data
        for t in _initializers(bytes(data))
        if t.data_type == TensorProto.INT8 and len(t.raw_data) == 3 * 8 * 3 * 3
    )
    at = bytes(data).index(weights)
    data[at : at + len(weights)] = weights[::-1]
    other = changed(bundle_path, tmp_path / "other.fts", members={member: bytes(data)})
    found = {f.check: f for f in check_bundle(other, simulate=True)}
    assert found["golden"].status == "failed"
    assert "limit" in found["golden"].detail
    assert found["portable"].status == "ok"


def _initializers(data: bytes) -> Any:
    import onnx

    return onnx.ModelProto.FromString(data).graph.initializer


def test_a_swap_of_red_and_blue_fails_the_preprocessing_check(bundle_path: Path, tmp_path: Path) -> None:
    def swapped(manifest: Manifest) -> Manifest:
        entry = manifest.inputs[0]
        assert entry.preprocessing is not None
        return replace(manifest, inputs=(replace(entry, preprocessing=replace(entry.preprocessing, color="bgr")),))

    other = changed(bundle_path, tmp_path / "other.fts", manifest=swapped)
    assert statuses(check_bundle(other, simulate=True)) == {
        "members": "ok",
        "golden": "ok",
        "portable": "ok",
        "preprocessing": "failed",
    }


def test_golden_tensors_without_frames_leave_preprocessing_unchecked(bundle_path: Path, tmp_path: Path) -> None:
    golden = arrays_from_npz(open_bundle(bundle_path).read(GOLDEN_MEMBER))
    kept = {k: v for k, v in golden.items() if not k.startswith("frame/")}
    assert len(kept) < len(golden)
    other = changed(bundle_path, tmp_path / "other.fts", members={GOLDEN_MEMBER: npz_bytes(kept)})
    assert statuses(check_bundle(other, simulate=True))["preprocessing"] == "not checked"


def test_the_limit_in_the_manifest_is_the_one_that_counts(bundle_path: Path, tmp_path: Path) -> None:
    def strict(manifest: Manifest) -> Manifest:
        return replace(manifest, golden={**manifest.golden, "limits": {"y": 1e-9}})

    other = changed(bundle_path, tmp_path / "other.fts", manifest=strict)
    assert statuses(check_bundle(other, simulate=True))["golden"] == "failed"


def test_the_command_prints_json_and_ends_with_0(bundle_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(bundle_path), "--json", "--simulate"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is True
    assert {f["check"] for f in result["findings"]} == {"members", "golden", "portable", "preprocessing"}


def test_the_command_ends_with_3_when_a_check_fails_and_2_when_the_bundle_is_damaged(
    bundle_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def strict(manifest: Manifest) -> Manifest:
        return replace(manifest, golden={**manifest.golden, "limits": {"y": 1e-9}})

    other = changed(bundle_path, tmp_path / "other.fts", manifest=strict)
    assert main([str(other), "--simulate"]) == 3
    assert "1 of 4 checks failed" in capsys.readouterr().out
    cut = tmp_path / "cut.fts"
    cut.write_bytes(bundle_path.read_bytes()[:-1000])
    assert main([str(cut)]) == 2
    assert "damaged or incomplete" in capsys.readouterr().err
