"""Evidence that computing in float32 changed nothing but rounding: the net in its own types, and the widened one.

How far may the two lie apart? In the net as it came every tensor is rounded to its type, in the widened one to float32.
So the widened net is run again with noise of that kind behind every node that made a float16, bfloat16 or float64 tensor,

    t' = t + u,   u uniform in +-NOISE_EPS * eps * max|t|,   eps = the coarser of the type's and float32's

in RUNS independent draws. With d the largest deviation seen in an output,

    |original - widened|  <=  SAFETY * d + FLOOR_EPS * eps * max|output|

Rounding one result errs by eps/2 of it. A kernel that also sums n products in the type errs by about sqrt(n) eps/2 of the
sums: with SAFETY * NOISE_EPS = 16, the bound covers n = 1,000 (a 3x3 convolution of 113 channels) in every node at once.
Errors amplified by the net itself (a norm over nearly equal numbers, a softmax) are amplified in the noise alike.

Integers and booleans come from comparisons, which noise flips where the two sides are nearly equal: as many elements may
differ as SAFETY times those that noise flips, and one more. Where the net as it came overflows its type (infinite or NaN),
it has nothing to compare with.

Source: stochastic arithmetic, J. Vignes, Math. and Computers in Simulation 35 (1993).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from fts.errors import EngineError
from fts_converters.check_equivalent import CleaningChangedTheNet, open_reference
from fts_converters.fresh_names import FreshNames
from fts_converters.tensor_types import scopes
from fts_converters.widen_types import OTHER_FLOATS

NOISE_EPS = 2.0
SAFETY = 8.0
FLOOR_EPS = 4.0
RUNS = 2
EPS: dict[int, float] = {
    TensorProto.FLOAT16: float(np.finfo(np.float16).eps),
    TensorProto.BFLOAT16: 2.0**-7,
    TensorProto.DOUBLE: float(np.finfo(np.float32).eps),
}
Array = npt.NDArray[np.generic]


def check_widened(before: onnx.ModelProto, after: onnx.ModelProto, feed: Mapping[str, Array], *, what: str) -> str:
    """Compare all outputs on one feed.

    Args:
        before: The net as it came, with static shapes.
        after: The same in float32, not yet cleaned.
        feed: One sample.
        what: Name of the net in messages.

    Returns:
        "" when they agree; why nothing was compared when onnxruntime cannot run the net in its own types.

    Raises:
        CleaningChangedTheNet: An output differs by more than the bound, or in shape or type.
    """
    eps_by_name = _eps_by_name(before)
    try:
        reference = open_reference(before, what=what).run(feed)
    except EngineError as error:
        return f"onnxruntime cannot run the net in its own types, so that it was not compared with itself in float32: {error}"
    outputs = open_reference(after, what=f"{what} (in float32)").run(feed)
    noisy = [
        open_reference(_noisy(after, eps_by_name, draw), what=f"{what} (with noise)").run(feed) for draw in range(RUNS)
    ]
    eps = max(eps_by_name.values(), default=float(np.finfo(np.float32).eps))
    for place, value in enumerate(before.graph.output):
        _compare(reference[place], outputs[place], [n[place] for n in noisy], eps, f"{what}, output {value.name!r}")
    return ""


def _compare(before: Array, after: Array, noisy: Sequence[Array], eps: float, what: str) -> None:
    if before.dtype != after.dtype or (before.shape != after.shape and all(n.shape == after.shape for n in noisy)):
        raise CleaningChangedTheNet(f"{what}: {before.dtype}{before.shape} became {after.dtype}{after.shape}")
    if before.shape != after.shape or not before.size:
        return  # a size that hangs on a comparison which noise flips
    same = [n for n in noisy if n.shape == after.shape]
    if before.dtype.kind != "f":
        flips = max((int((n != after).sum()) for n in same), default=0)
        if int((before != after).sum()) > SAFETY * flips + 1:
            raise CleaningChangedTheNet(f"{what}: computing in float32 changed its values")
        return
    x, y = before.astype(np.float64), after.astype(np.float64)
    known = np.isfinite(x)
    if not known.any():
        return
    with np.errstate(invalid="ignore"):  # infinity - infinity
        deviation = max(
            (float(np.nanmax(np.abs(n.astype(np.float64) - y)[known], initial=0.0)) for n in same), default=0.0
        )
    bound = SAFETY * deviation + FLOOR_EPS * eps * float(np.abs(x[known]).max())
    if not bool((np.abs(x[known] - y[known]) <= bound).all()):
        raise CleaningChangedTheNet(f"{what}: computing in float32 changed its values by more than {bound:.3g}")


def _eps_by_name(before: onnx.ModelProto) -> dict[str, float]:
    """Tensors of the main graph that are not float32 in the net as it came."""
    types = scopes(before)[0].types
    return {name: max(EPS[t], float(np.finfo(np.float32).eps)) for name, t in types.items() if t in OTHER_FLOATS}


def _noisy(after: onnx.ModelProto, eps_by_name: Mapping[str, float], draw: int) -> onnx.ModelProto:
    """The net with noise behind each float32 tensor that was of another type; a border's Cast counts for its operand."""
    noisy = onnx.ModelProto()
    noisy.CopyFrom(after)
    names = FreshNames(noisy.graph)
    types = scopes(after)[0].types
    given = {v.name for v in (*after.graph.input, *after.graph.initializer)}
    wanted = dict(eps_by_name)
    for node in after.graph.node:
        if node.op_type == "Cast" and node.output[0] in eps_by_name and node.input[0] not in given:
            wanted[node.input[0]] = eps_by_name[node.output[0]]
    sequences = {n for node in after.graph.node if "Sequence" in node.op_type for n in node.output}
    nodes: list[onnx.NodeProto] = []
    for position, node in enumerate(after.graph.node):
        new = onnx.NodeProto()
        new.CopyFrom(node)
        nodes.append(new)
        for i, name in enumerate(node.output):
            if (
                node.op_type == "Constant"
                or name in sequences
                or name not in wanted
                or types.get(name) != TensorProto.FLOAT
            ):
                continue
            new.output[i] = names.take(f"{name}_exact")
            nodes += _noise(
                new.output[i], name, NOISE_EPS * wanted[name], draw * len(after.graph.node) + position, names
            )
    del noisy.graph.node[:]
    noisy.graph.node.extend(nodes)
    return noisy


def _noise(exact: str, name: str, amplitude: float, seed: int, names: FreshNames) -> list[onnx.NodeProto]:
    size, top, factor, span, unit, scaled = (
        names.take(f"{name}_{part}") for part in ("size", "top", "factor", "span", "unit", "noise")
    )
    constant = numpy_helper.from_array(np.array(amplitude, np.float32))
    return [
        helper.make_node("Abs", [exact], [size]),
        helper.make_node("ReduceMax", [size], [top], keepdims=0),
        helper.make_node("Constant", [], [factor], value=constant),
        helper.make_node("Mul", [top, factor], [span]),
        helper.make_node("RandomUniformLike", [exact], [unit], low=-1.0, high=1.0, seed=float(seed), dtype=1),
        helper.make_node("Mul", [unit, span], [scaled]),
        helper.make_node("Add", [exact, scaled], [name]),
    ]
