"""Torch sources: a factory or a .pt2 file. Needs the torch extra, which `make test-slow` installs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from fts.engines.onnxruntime_session import open_session
from fts.errors import MissingDependencyError, ModelError, ModelFileError
from fts_converters.load import load_model
from fts_converters.load_torch import is_torch_source, proto_from_torch

HAS_TORCH = importlib.util.find_spec("torch") is not None
ROOT = Path(__file__).resolve().parents[2]
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="the torch extra is not installed")

FACTORIES = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
    def forward(self, image, age):
        return self.drop(self.norm(self.conv(image))) * age, age + 1

def two_inputs():
    return Net(), (torch.rand(1, 3, 16, 16), torch.ones(1, 1, 1, 1))

def by_name():
    return Net(), {"image": torch.rand(1, 3, 16, 16), "age": torch.ones(1, 1, 1, 1)}

class Branching(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x * 3

def branching():
    return Branching(), torch.rand(1, 3)

class Random(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)

def random():
    return Random(), torch.rand(1, 3)

def fails():
    raise ValueError("no weights here")

def not_a_net():
    return "a net"

number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a module of factories in the working folder, a new one for each test."""
    name = f"factories_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(FACTORIES)
    monkeypatch.chdir(tmp_path)
    return name


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("net.pt2", True),
        ("package.module:factory", True),
        ("net.onnx", False),
        ("C:/nets/net.onnx", False),
        ("a-b:c", False),
        (":factory", False),
    ],
)
def test_a_source_is_torch_by_its_form(source: str, expected: bool) -> None:
    assert is_torch_source(source) is expected


@pytest.mark.skipif(HAS_TORCH, reason="the torch extra is installed")
def test_without_torch_the_message_is_the_pip_line() -> None:
    with pytest.raises(MissingDependencyError, match=r"pip install 'fts-edge\[convert,torch\]'"):
        load_model("package.module:factory")


@needs_torch
@pytest.mark.parametrize("factory", ["two_inputs", "by_name"])
def test_a_factory_becomes_a_net_in_evaluation_mode_with_its_argument_names(module: str, factory: str) -> None:
    proto = proto_from_torch(f"{module}:{factory}")
    assert [i.name for i in proto.graph.input] == ["image", "age"]
    assert "Dropout" not in {n.op_type for n in proto.graph.node}
    x = np.random.default_rng(0).random((1, 3, 16, 16), dtype=np.float32)
    session = open_session(proto.SerializeToString())
    first, second = (session.run({"image": x, "age": np.full((1, 1, 1, 1), 2, np.float32)}) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    assert float(first[1].item()) == 3.0


@needs_torch
def test_no_path_of_this_machine_enters_the_export(module: str) -> None:
    data = proto_from_torch(f"{module}:two_inputs").SerializeToString()
    assert str(Path.cwd()).encode() not in data
    assert b"site-packages" not in data


@needs_torch
def test_a_saved_program_is_read(module: str, tmp_path: Path) -> None:
    import torch

    sys.path.insert(0, str(tmp_path))
    try:
        net, inputs = importlib.import_module(module).two_inputs()
    finally:
        sys.path.pop(0)
    torch.export.save(torch.export.export(net.eval(), inputs), tmp_path / "net.pt2")
    model = load_model(str(tmp_path / "net.pt2"))
    assert [i.name for i in model.graph.inputs] == ["image", "age"]


@needs_torch
@pytest.mark.parametrize(
    ("factory", "error", "text"),
    [
        ("branching", ModelError, "torch cannot export it"),
        ("random", ModelError, "Is the net deterministic"),
        ("fails", ModelError, "the factory failed: ValueError: no weights here"),
        ("not_a_net", ModelFileError, r"returned a str, expected \(torch.nn.Module"),
        ("number", ModelFileError, "has a int under 'number'"),
        ("nothing", ModelFileError, "nothing of that name under 'nothing'"),
    ],
)
def test_a_bad_factory_is_refused_with_the_reason(module: str, factory: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        proto_from_torch(f"{module}:{factory}")


@needs_torch
def test_a_missing_module_and_a_file_that_is_no_program_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no module 'no_such_package'"):
        proto_from_torch("no_such_package.net:factory")
    (tmp_path / "net.pt2").write_bytes(b"not a program")
    with pytest.raises(ModelFileError, match=r"net\.pt2"):
        proto_from_torch(str(tmp_path / "net.pt2"))


@needs_torch
@pytest.mark.slow
def test_cyclegan_vintage_from_its_state_dict_equals_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar: 1e-4 of the range, on another input than the export was checked on."""
    import torch

    fetched = subprocess.run(
        [sys.executable, "tools/fetch_assets.py", "cyclegan_vintage"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    monkeypatch.setenv("VINTAGE_WEIGHTS", fetched.stdout.strip())
    monkeypatch.chdir(ROOT / "samples" / "vintage")
    model = load_model("cyclegan:factory")
    sys.path.insert(0, str(Path.cwd()))
    try:
        net, _ = importlib.import_module("cyclegan").factory()
    finally:
        sys.path.pop(0)
    x = np.random.default_rng(1).uniform(-1, 1, (1, 3, 256, 256)).astype(np.float32)
    with torch.no_grad():
        expected = net.eval()(torch.from_numpy(x)).numpy()
    (got,) = open_session(model.to_proto().SerializeToString()).run({"image": x})
    assert float(np.abs(got - expected).max()) <= 1e-4 * float(expected.max() - expected.min())
    onnx.checker.check_model(model.to_proto())
