"""Nets above the 2 GiB of a message, and small ones for which that limit is set lower."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fts.errors import ModelError
from fts_converters import light_proto, pack
from fts_converters.commands import main_fts
from fts_converters.light_proto import LightProto
from fts_converters.load import load_model
from fts_converters.pack import refuse_larger_than_bundle

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "large_net_memory.py"
# The bar: peak of loading, freezing and cleaning over the size of the net.
MOST_MEMORY = 3.0
# Of the output's range, as between any net and its cleaned form.
TOLERANCE = 1e-4
# Three Conv and four Gemm with their Relu, four MatMul, one Add, and a Reshape: the rest is folded.
NODES_LEFT = 20
MESSAGE_LIMIT = 500_000


def figures(folder: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), "--json", "--folder", str(folder), *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def test_a_net_above_the_limit_of_a_message_is_cleaned(tmp_path):
    found = figures(tmp_path, "--size-mb", "8", "--message-limit", str(MESSAGE_LIMIT))
    assert found["size_bytes"] > 10 * MESSAGE_LIMIT
    assert found["nodes_after"] == NODES_LEFT
    assert found["difference"] <= TOLERANCE


@pytest.mark.slow
def test_a_net_of_2_5_gb_is_cleaned_in_three_times_its_size(tmp_path):
    found = figures(tmp_path, "--size-mb", "2560")
    print(f"peak {found['clean_peak_bytes'] / found['size_bytes']:.2f} x {found['size_bytes']} bytes")
    assert found["size_bytes"] >= 2.5e9
    assert found["nodes_after"] == NODES_LEFT
    assert found["clean_peak_bytes"] <= MOST_MEMORY * found["size_bytes"]
    assert found["difference"] <= TOLERANCE


@pytest.fixture
def large(tmp_path, monkeypatch) -> str:
    code = "import sys, pathlib, large_net_memory as m; m.write_net(pathlib.Path(sys.argv[1]), 4_000_000)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, cwd=SCRIPT.parent)
    monkeypatch.setattr(light_proto, "LIMIT_BYTES", MESSAGE_LIMIT)
    return str(tmp_path / "net.onnx")


def test_inspect_takes_a_net_above_the_limit(large, capsys):
    assert main_fts(["inspect", large, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert len(facts["after"]["nodes"]) == NODES_LEFT
    assert facts["before"]["parameters"] > MESSAGE_LIMIT
    assert facts["after"]["macs"] == 3 * (80 * 2 * 2) * (80 * 3 * 3) + 8 * 320 * 320


def test_a_net_that_no_bundle_can_hold_is_refused_before_it_is_measured(large, monkeypatch):
    net = load_model(large).to_light()
    least = net.size_bytes + sum(w.nbytes for w in net.weights.values()) // 4
    monkeypatch.setattr(pack, "MAX_ARCHIVE_BYTES", 2 * least)
    refuse_larger_than_bundle(net, "net.onnx")
    monkeypatch.setattr(pack, "MAX_ARCHIVE_BYTES", least)
    with pytest.raises(
        ModelError, match=rf"'net\.onnx': {net.size_bytes} bytes in FP32.* at most {least}\. .*fts inspect"
    ):
        refuse_larger_than_bundle(net, "net.onnx")
    assert isinstance(net, LightProto)
