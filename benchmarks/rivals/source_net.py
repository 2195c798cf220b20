"""What every rival gets: the frozen FP32 net and the very tensors that fts calibrates and judges with."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnx import shape_inference
from zoo.crops import write_crops
from zoo.nets import Net

from fts_calibration.dataset.source import open_calibration
from fts_converters.card import Card, read_card
from fts_converters.contract import InputContract, decide_inputs
from fts_converters.freeze import freeze
from fts_converters.light_proto import serialized
from fts_converters.load import load_model
from fts_converters.model import tensor_specs
from fts_converters.passes import clean
from fts_converters.passes.name_nodes import name_nodes
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.units import macs_by_node
from fts_converters.request import PreprocessingFlags
from fts_converters.warnings_log import WarningLog

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceNet:
    """A net and its data.

    Attributes:
        name: As in the bars.
        file: The ONNX file as it came: what fts-convert gets.
        frozen: The same with static shapes, constants for frozen inputs and its nodes named: what rivals get.
        input_name: The picture's input.
        output: The output that is judged.
        macs: Multiply-accumulates of the net as fts cleans it.
        calibration: Folder of pictures.
        holdout: Folder of pictures.
        calibration_npz: The 16 calibration tensors (16, C, H, W) under the input's name.
        holdout_tensors: float32 (8, C, H, W).
    """

    name: str
    file: Path
    frozen: Path
    input_name: str
    output: str
    macs: int
    calibration: Path
    holdout: Path
    calibration_npz: Path
    holdout_tensors: FloatArray

    @property
    def digest(self) -> str:
        """sha256 over the net and all data."""
        data = hashlib.sha256(self.frozen.read_bytes())
        with np.load(self.calibration_npz) as arrays:
            data.update(arrays[self.input_name].tobytes())
        data.update(self.holdout_tensors.tobytes())
        return data.hexdigest()


def make_source_net(net: Net, folder: Path) -> SourceNet:
    """Write the net, its crops and its tensors into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = net.make(folder)
    calibration, holdout = write_crops(folder / f"crops{net.side_px}_{net.table}", net.side_px, net.table)
    shapes, card = _shapes_and_card(net.arguments)
    model = load_model(str(file))
    flags = PreprocessingFlags(color="rgb", scale=net.scale, mean=net.mean, std=net.std, layout="nchw")
    specs = tensor_specs(model.to_light().proto.graph.input)
    decisions = decide_inputs(specs, card, flags, shapes, WarningLog())
    freeze(model, decisions.shapes, decisions.frozen)
    name_nodes(model)
    frozen = folder / f"{net.name.replace('/', '_')}.frozen.onnx"
    # onnxsim does not take a net whose outputs have no shape.
    whole = shape_inference.infer_shapes(model.to_light().whole(net.name), data_prop=True)
    frozen.write_bytes(serialized(whole, net.name))
    clean(model)
    macs = sum(macs_by_node(GraphIndex(model.to_light().proto)).values())
    npz = folder / f"{net.name.replace('/', '_')}.calibration.npz"
    feeds = {net.input_name: tensors(calibration, decisions.live, net.input_name)}
    np.savez(npz, **feeds)  # type: ignore[arg-type]  # numpy's stub takes any keyword for allow_pickle
    return SourceNet(
        name=net.name,
        file=file,
        frozen=frozen,
        input_name=net.input_name,
        output=net.output,
        macs=macs,
        calibration=calibration,
        holdout=holdout,
        calibration_npz=npz,
        holdout_tensors=tensors(holdout, decisions.live, net.input_name),
    )


def tensors(folder: Path, inputs: Sequence[InputContract], name: str) -> FloatArray:
    """Every picture of a folder as the net's input, in the order in which fts reads them: float32 (n, C, H, W)."""
    opened = open_calibration(str(folder), [i.to_request() for i in inputs])
    return np.concatenate([feed[name] for sample in opened.samples for feed in sample.read()]).astype(np.float32)


def _shapes_and_card(arguments: Sequence[str]) -> tuple[dict[str, tuple[int, ...]], Card]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--card", type=Path)
    args = parser.parse_args(arguments)
    shapes = {}
    for text in args.shape:
        name, _, sizes = text.rpartition("=")
        shapes[name] = tuple(int(s) for s in sizes.split("x"))
    return shapes, Card() if args.card is None else read_card(args.card)
