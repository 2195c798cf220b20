"""The six nets of the bars as ONNX files with the arguments that fts-convert needs for each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx

from zoo.crops import ROOT, fetch
from zoo.srvgg import srvgg_from_ncnn


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """A net and how it wants its pictures.

    Attributes:
        name: What it is called in the bars.
        make: Writes its ONNX file and returns the path.
        input_name: The picture's input.
        side_px: Height and width it is converted for.
        output: The output that the bar is about.
        arguments: Shape and card flags of fts-convert.
        scale: Pixels of 0..255 times this, less `mean`, over `std`, in RGB: the same for rival tools.
        mean: One number a channel.
        std: One number a channel.
        table: Crops in crops.json.
    """

    name: str
    make: Callable[[Path], Path]
    input_name: str
    side_px: int
    output: str
    scale: float
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    arguments: tuple[str, ...] = ()
    table: str = "scenes"

    def preprocessing_arguments(self) -> list[str]:
        """Flags of fts-convert for the preprocessing above."""
        triple = ",".join
        return [
            *("--color", "rgb", "--scale", repr(self.scale), "--layout", "nchw"),
            *("--mean", triple(map(repr, self.mean)), "--std", triple(map(repr, self.std))),
            *self.arguments,
        ]


def _asset(name: str) -> Callable[[Path], Path]:
    def make(_folder: Path) -> Path:
        return fetch([name])[0]

    return make


def _srvgg(folder: Path) -> Path:
    param, weights = fetch(["srvgg_x4_param", "srvgg_x4_bin"])
    path = folder / "srvgg_x4.onnx"
    onnx.save(srvgg_from_ncnn(param, weights), path)
    return path


def _cyclegan(folder: Path) -> Path:
    """Exported from torch, as `samples/vintage` describes."""
    import torch

    sys.path.insert(0, str(ROOT / "samples" / "vintage"))
    import cyclegan

    os.environ["VINTAGE_WEIGHTS"] = str(fetch(["cyclegan_vintage"])[0])
    net, example = cyclegan.factory()
    path = folder / "cyclegan_vintage.onnx"
    names = {"input_names": ["image"], "output_names": ["picture"]}
    torch.onnx.export(net.eval(), (example,), str(path), opset_version=17, dynamo=False, **names)
    return path


def _style_net(style: int) -> Net:
    card = ROOT / "samples" / "season_style" / f"style_{style}.toml"
    return Net(
        name=f"style_multi26/{style}",
        make=_asset("style_multi26"),
        input_name="image",
        side_px=256,
        output="stylized",
        scale=1 / 255,
        arguments=("--shape", "image=1x3x256x256", "--card", str(card)),
    )


IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NETS: tuple[Net, ...] = (
    Net(
        name="cyclegan_vintage",
        make=_cyclegan,
        input_name="image",
        side_px=256,
        output="picture",
        scale=1 / 127.5,
        mean=(1.0, 1.0, 1.0),
    ),
    _style_net(0),
    _style_net(9),
    _style_net(19),
    Net(
        name="centerface",
        make=_asset("centerface"),
        input_name="input.1",
        side_px=256,
        output="537",
        scale=1.0,
        arguments=("--shape", "input.1=1x3x256x256"),
    ),
    Net(
        name="age_81",
        make=_asset("age_81"),
        input_name="images",
        side_px=64,
        output="probabilities",
        scale=1 / 256,
        mean=(122.781998 / 256, 117.000999 / 256, 104.297997 / 256),
    ),
    Net(
        name="srvgg_x4",
        make=_srvgg,
        input_name="input",
        side_px=128,
        output="output",
        scale=1 / 255,
        arguments=("--shape", "input=1x3x128x128"),
    ),
    Net(
        name="ocr_det",
        make=_asset("ocr_det"),
        input_name="x",
        side_px=256,
        output="sigmoid_0.tmp_0",
        scale=1 / 255,
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        arguments=("--shape", "x=1x3x256x256"),
    ),
)


def net(name: str) -> Net:
    """The net of that name.

    Raises:
        KeyError: There is none.
    """
    return {n.name: n for n in NETS}[name]
