"""Random graphs and the nets of the bars, cleaned as a conversion cleans them, against ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
import onnx
import pytest
from tests.fts_calibration.train.agreement import NET_TOLERANCE, Array, check_agreement, twin_outputs
from tests.generators.laws import is_within, loaded_model
from tests.generators.random_graphs import Case, random_graph
from tests.generators.run_plain import run_plain
from tests.generators.tolerance import tolerance

from fts.errors import UnsupportedOpError
from fts_converters.card import read_card
from fts_converters.freeze import freeze
from fts_converters.load import load_model
from fts_converters.lower import lower
from fts_converters.model import Model
from fts_converters.passes import clean
from fts_converters.passes.name_nodes import name_nodes

if TYPE_CHECKING:
    from zoo.nets import Net

pytest.importorskip("torch", reason="the torch extra is not installed")

SEEDS = range(400)
# Others hold what the twin refuses: loops, sequences, scatters.
LEAST_GRAPHS_RUN = 280
# Crops of a net; the sixth holds letters, without which ocr_det finds nothing.
PICTURES = 6


@pytest.mark.slow
def test_random_graphs_agree_within_their_own_tolerance() -> None:
    refused: Counter[str] = Counter()
    for seed in SEEDS:
        case = random_graph(seed)
        model = loaded_model(case)
        clean(model)
        try:
            outputs = twin_outputs(model.to_proto(), [case.feeds])[0]
        except UnsupportedOpError as refusal:
            refused[refusal.op_type] += 1
            continue
        _check_case(case, outputs)
    assert len(SEEDS) - refused.total() >= LEAST_GRAPHS_RUN, refused


def _check_case(case: Case, outputs: list[Array]) -> None:
    reference = run_plain(case.model, case.feeds)
    for value, r, y, bound in zip(case.model.graph.output, reference, outputs, tolerance(case, reference), strict=True):
        assert (y.dtype, y.shape) == (r.dtype, r.shape), (case, value.name)
        assert is_within(y, r, bound), (case, value.name, bound, np.abs(y.astype(float) - r.astype(float)).max())


@dataclass(frozen=True, kw_only=True)
class NetCase:
    """A net of the bars.

    Attributes:
        name: As in benchmarks/zoo.
        is_frozen: Inputs to which the net's card gives a value become constants.
    """

    name: str
    is_frozen: bool = False

    def __str__(self) -> str:
        return f"{self.name}{' frozen' if self.is_frozen else ''}"


NET_CASES = (
    NetCase(name="cyclegan_vintage"),
    NetCase(name="style_multi26/0"),
    NetCase(name="style_multi26/0", is_frozen=True),
    NetCase(name="centerface"),
    NetCase(name="age_81"),
    NetCase(name="srvgg_x4"),
    NetCase(name="ocr_det"),
)


@pytest.mark.slow
@pytest.mark.parametrize("case", NET_CASES, ids=str)
def test_a_net_of_the_bars_agrees(case: NetCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    from zoo.nets import net

    declared = net(case.name)
    model = load_model(str(declared.make(tmp_path)))
    arguments = dict(zip(declared.arguments[::2], declared.arguments[1::2], strict=True))
    given = _card_values(arguments["--card"]) if "--card" in arguments else {}
    frozen = given if case.is_frozen else {}
    freeze(model, _shapes(model, arguments, frozen), frozen)
    name_nodes(model)
    clean(model)
    lower(model, "cpu-int8")
    live = {} if case.is_frozen else given
    samples = [{**live, declared.input_name: picture} for picture in _pictures(declared, tmp_path)]
    check_agreement(model.to_proto(), samples, NET_TOLERANCE)
    _check_gradients(model.to_proto(), samples[-1])


def _check_gradients(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> None:
    """Every weight of a convolution or product has a say in the outputs."""
    import torch

    from fts_calibration.train.twin import Twin

    twin = Twin(proto)
    found = twin({name: torch.from_numpy(value) for name, value in feeds.items()})
    torch.stack([found[name].square().sum() for name in twin.output_names]).sum().backward()
    for name, weight in twin.weights.items():
        assert weight.grad is not None, name
        assert bool(torch.isfinite(weight.grad).all()), name
        assert weight.dim() < 2 or bool(weight.grad.any()), name


def _pictures(declared: Net, folder: Path) -> list[Array]:
    """(1, 3, side, side) float32, as the net wants them."""
    from zoo.crops import write_crops

    calib, _ = write_crops(folder, declared.side_px, declared.table)
    found = []
    for path in sorted(calib.iterdir())[:PICTURES]:
        photo = cv2.imread(str(path), cv2.IMREAD_COLOR)
        assert photo is not None
        rgb = photo[:, :, ::-1].astype(np.float32) * declared.scale
        hwc = (rgb - np.array(declared.mean)) / np.array(declared.std)
        found.append(hwc.transpose(2, 0, 1)[None].astype(np.float32))
    return found


def _card_values(card: str) -> dict[str, Array]:
    """Of inputs that are no pictures: the net runs on what it was trained for, here one style of 26."""
    inputs = read_card(Path(card)).inputs
    return {n: np.asarray(i.value, np.float32) for n, i in inputs.items() if i.value is not None}


def _shapes(model: Model, arguments: Mapping[str, str], frozen: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    """Those of the arguments; else the net's own, with 1 for what it leaves open (the batch)."""
    name, _, text = arguments.get("--shape", "").partition("=")
    given = {name: tuple(map(int, text.split("x")))} if name else {}
    own = {i.name: tuple(d if isinstance(d, int) else 1 for d in i.shape) for i in model.graph.inputs}
    return {n: given.get(n, shape) for n, shape in own.items()}
