"""A scale and shift per channel in front of a convolution or product goes into its weights: input normalisation above all.

    Conv(s * x + t; W, b) = Conv(x; W * s, b + sum over i, k of W[o, i, k] t[i])        (s, t along input channels, float64)

for chains of Sub, Div, Mul, Add and BatchNormalization, also in front of a Transpose (NHWC -> NCHW) or of a Pad that copies
values (reflect, edge), which commute with them. The scale always folds. The shift folds into Conv, Gemm and MatMul only
where no zero is padded, since a border of zeros stands for s * x + t = 0 and not for x = 0, and not into ConvTranspose,
whose border pixels sum fewer taps. Where the shift stays, t / s is added in front and the scale goes, if that saves a node.

Requires: constants of one number or one value a channel, each value in between read by the next alone; weights that are
constants. Does *not* pad with -t / s in place of zeros: that Pad is as dear as the addition, and engines fuse neither.
MatMul has no bias: the shift becomes an Add behind it, in place of the one in front.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.graph_editing import TensorNames, bypass, finish
from fts_converters.passes.graph_reading import constant, label, only_reader, rank
from fts_converters.passes.linear_weights import linear_weights

AFFINE = frozenset({"Mul", "Div", "Add", "Sub", "BatchNormalization"})
LINEAR = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
Floats = npt.NDArray[np.float64]


@dataclass(slots=True, kw_only=True, eq=False)
class _Chain:
    """scale * x + shift in front of a linear node.

    Attributes:
        scale: (C,).
        shift: (C,).
        affine: Nodes to remove with what they read, the last one first.
        axes: Rank of what they read.
        axis: Axis of the channels at the first of them.
    """

    scale: Floats
    shift: Floats
    axes: int
    axis: int
    affine: list[tuple[gs.Node, gs.Tensor]] = field(default_factory=list)


def fold_scale_into_next(model: Model) -> PassResult:
    """Folds each chain that can be; a shift in front of a padded convolution is left, with the reason."""
    graph = model.graph
    names = TensorNames(graph)
    is_changed = False
    while True:
        refusals = []
        is_round_changed = False
        own = {id(n) for n in graph.nodes}
        for node in [n for n in graph.nodes if n.op in LINEAR and not n.domain]:
            reason = _fold(graph, node, own, names)
            if reason:
                refusals.append(Refusal(node=label(node), reason=reason))
            is_round_changed |= reason == ""
        if not is_round_changed:
            return PassResult(is_changed=is_changed, refusals=tuple(refusals))
        finish(graph)  # takes dead readers away, behind which more can be folded
        is_changed = True


def _fold(graph: gs.Graph, node: gs.Node, own: set[int], names: TensorNames) -> str | None:
    """None when there is nothing in front, a reason when it was left alone, "" when the graph was changed."""
    if len(node.inputs) < 2 or (node.op == "Gemm" and node.attrs.get("transA")):
        return None
    weight = constant(node.inputs[1])
    if weight is None or weight.dtype not in (np.float32, np.float64) or weight.ndim < 2:
        return None
    axes = rank(node.inputs[0]) if node.op == "MatMul" else weight.ndim
    if axes is None:
        return None
    channels = _input_channels(node, weight)
    chain = _chain(graph, node, own, axes, axes - 1 if node.op in ("Gemm", "MatMul") else 1, channels)
    if chain is None:
        return None
    kept = _why_shift_stays(node) if chain.shift.any() else ""
    if not kept:
        return _write(graph, node, chain, names, keeps_shift=False)
    if len(chain.affine) < 2 or (chain.scale == 0).any():
        return f"the shift in front of it is left: {kept}"
    return _write(graph, node, chain, names, keeps_shift=True)


def _input_channels(node: gs.Node, weight: npt.NDArray[np.generic]) -> int:
    if node.op == "Conv":
        return int(weight.shape[1]) * int(node.attrs.get("group", 1))
    if node.op == "ConvTranspose":
        return int(weight.shape[0])
    return int(weight.shape[1 if node.op == "Gemm" and node.attrs.get("transB") else -2])


def _why_shift_stays(node: gs.Node) -> str:
    """Empty when a shift of the input is a shift of the output, the same everywhere."""
    if node.op == "MatMul":
        return "" if len(_weight_shape(node)) == 2 else "the matrix has further axes"
    if isinstance(found := linear_weights(node), str):
        return found
    if node.op == "ConvTranspose":
        return "border pixels of a ConvTranspose sum fewer taps"
    if node.op == "Conv":
        auto = node.attrs.get("auto_pad", "NOTSET")
        if auto not in ("NOTSET", "VALID") or (auto == "NOTSET" and any(node.attrs.get("pads") or [])):
            return "the Conv pads with zeros, which are not zeros before the shift"
    return ""


def _weight_shape(node: gs.Node) -> tuple[int, ...]:
    """Of the weights."""
    weight = constant(node.inputs[1])
    return () if weight is None else tuple(weight.shape)


def _chain(graph: gs.Graph, node: gs.Node, own: set[int], axes: int, axis: int, channels: int) -> _Chain | None:
    """What is in front of a linear node, as far as it is affine and read by it alone."""
    chain = _Chain(scale=np.ones(channels), shift=np.zeros(channels), axes=axes, axis=axis)
    tensor, reader = node.inputs[0], node
    while True:
        maker = tensor.inputs[0] if len(tensor.inputs) == 1 else None
        if maker is None or maker.domain or only_reader(graph, tensor) is not reader:
            break
        if id(maker) not in own:
            break
        if maker.op == "Transpose":
            perm = maker.attrs.get("perm")
            if perm is None:
                break
            axis = int(perm[axis])
            source = maker.inputs[0]
        elif maker.op == "Pad" and maker.attrs.get("mode", "constant") in ("reflect", "edge", "wrap"):
            source = maker.inputs[0]
            if not _keeps_axis(maker, axis):
                break
        elif maker.op in AFFINE:
            step = _affine(maker, axes, axis, channels)
            if step is None:
                break
            source, scale, shift = step
            chain.shift = chain.shift + chain.scale * shift
            chain.scale = chain.scale * scale
            chain.affine.append((maker, source))
            chain.axis = axis
        else:
            break
        tensor, reader = source, maker
    if not chain.affine or not (np.isfinite(chain.scale).all() and np.isfinite(chain.shift).all()):
        return None
    return chain


def _keeps_axis(pad: gs.Node, axis: int) -> bool:
    """A Pad that leaves the channels as many and in their order."""
    pads = pad.attrs.get("pads")
    if pads is None and len(pad.inputs) > 1 and not (len(pad.inputs) > 3 and pad.inputs[3].name):
        pads = constant(pad.inputs[1])
    if pads is None:
        return False
    flat = [int(p) for p in np.asarray(pads).reshape(-1)]
    return not flat[axis] and not flat[axis + len(flat) // 2]


def _affine(node: gs.Node, axes: int, axis: int, channels: int) -> tuple[gs.Tensor, Floats, Floats] | None:
    """Source, scale (C,) and shift (C,) of a node that multiplies or adds constants per channel."""
    ones, zeros = np.ones(channels), np.zeros(channels)
    if node.op == "BatchNormalization":
        parameters = [constant(t) for t in node.inputs[1:5]]
        if axis != 1 or node.attrs.get("training_mode") or any(p is None or p.shape != (channels,) for p in parameters):
            return None
        if any(t.name for t in node.outputs[1:]):
            return None
        gamma, beta, mean, variance = (np.asarray(p, np.float64) for p in parameters)
        factor = gamma / np.sqrt(variance + float(node.attrs.get("epsilon", 1e-5)))
        return node.inputs[0], factor, beta - mean * factor
    for position in (0, 1):
        source, operand = node.inputs[position], constant(node.inputs[1 - position])
        if operand is None or constant(source) is not None:
            continue
        values = _per_channel(operand, source, axes, axis, channels)
        if values is None:
            return None
        if node.op == "Mul":
            return source, values, zeros
        if node.op == "Add":
            return source, ones, values
        if node.op == "Sub":
            return (source, ones, -values) if position == 0 else (source, -ones, values)
        return (source, 1.0 / values, zeros) if position == 0 and (values != 0).all() else None
    return None


def _per_channel(
    operand: npt.NDArray[np.generic], source: gs.Tensor, axes: int, axis: int, channels: int
) -> Floats | None:
    """(C,) when the operand is one number, or one value a channel along `axis` of a source of `axes` axes and C channels.

    A source of one channel or fewer axes would be broadcast, and the node has to stay for that.
    """
    if operand.dtype not in (np.float32, np.float64) or operand.ndim > axes:
        return None
    if operand.ndim == axes and rank(source) != axes:
        return None
    if operand.size > 1 and (rank(source) != axes or source.shape[axis] != channels):
        return None
    if operand.size == 1:
        return np.full(channels, float(operand.reshape(()).item()))
    shape = (1,) * (axes - operand.ndim) + operand.shape
    wanted = tuple(channels if a == axis else 1 for a in range(axes))
    return operand.reshape(-1).astype(np.float64) if shape == wanted else None


def _write(graph: gs.Graph, node: gs.Node, chain: _Chain, names: TensorNames, *, keeps_shift: bool) -> str:
    """Returns the reason when the numbers would not fit."""
    stored = constant(node.inputs[1])
    if stored is None:  # `_fold` has looked
        return "its weights are computed"
    shift = np.zeros_like(chain.shift) if keeps_shift else chain.shift
    weight, summand = _folded(node, stored.astype(np.float64), chain.scale, shift)
    rest = chain.shift / chain.scale if keeps_shift else None
    parts = [weight, summand] if rest is None else [weight, summand, rest]
    with np.errstate(over="ignore"):
        if not all(np.isfinite(p.astype(stored.dtype)).all() for p in parts):
            return "a scale or shift in front of it is left: the numbers would overflow"
    if summand.any():
        _shift_output(graph, node, names, summand, stored.dtype)
    node.inputs[1] = names.constant(f"{node.inputs[1].name}_folded", weight.astype(stored.dtype))
    for step, source in chain.affine[:-1]:
        bypass(graph, step, source)
    first, source = chain.affine[-1]
    if rest is not None:
        column = rest.reshape(-1, *[1] * (chain.axes - 1 - chain.axis)).astype(stored.dtype)
        shifted = names.variable(f"{source.name}_shifted", source, source.shape)
        inputs = [source, names.constant(f"{source.name}_shift", column)]
        graph.nodes.append(gs.Node(op="Add", name=first.name, inputs=inputs, outputs=[shifted]))
        source = shifted
    bypass(graph, first, source)
    return ""


def _folded(node: gs.Node, weight: Floats, scale: Floats, shift: Floats) -> tuple[Floats, Floats]:
    """Weights for scale * x, and what the shift adds to each output channel."""
    if node.op == "Conv":  # (Co, Ci / g, ...): each group's rows see their own input channels
        groups = int(node.attrs.get("group", 1))
        spread = (groups, 1, -1, *[1] * (weight.ndim - 2))
        grouped = weight.reshape(groups, -1, *weight.shape[1:])
        summand = (grouped * shift.reshape(spread)).sum(axis=tuple(range(2, grouped.ndim))).reshape(-1)
        return (grouped * scale.reshape(spread)).reshape(weight.shape), summand
    if node.op == "ConvTranspose":  # (Ci, Co / g, ...), and no shift
        return weight * scale.reshape(-1, *[1] * (weight.ndim - 1)), np.zeros(1)
    if node.op == "Gemm" and node.attrs.get("transB"):
        return weight * scale, weight @ shift
    return weight * scale[:, None], shift @ weight


def _shift_output(
    graph: gs.Graph, node: gs.Node, names: TensorNames, summand: Floats, dtype: np.dtype[np.generic]
) -> None:
    """Into the bias; for a MatMul into the constant that is added behind it, or into an Add of its own."""
    if node.op != "MatMul":
        weights = linear_weights(node)
        old = np.zeros(1) if isinstance(weights, str) else weights.bias
        bias = names.constant(f"{node.inputs[1].name}_folded_bias", (old + summand).astype(dtype))
        node.inputs = [node.inputs[0], node.inputs[1], bias]
        return
    output = node.outputs[0]
    reader = only_reader(graph, output)
    if reader is not None and reader.op == "Add" and not reader.domain and any(reader is n for n in graph.nodes):
        position = 1 if reader.inputs[0] is output else 0
        operand = constant(reader.inputs[position])
        if operand is not None and operand.dtype == dtype and operand.ndim <= (rank(output) or 0):
            total = (operand.astype(np.float64) + summand).astype(dtype)
            reader.inputs[position] = names.constant(f"{reader.inputs[position].name}_folded", total)
            return
    product = names.variable(f"{output.name}_unshifted", output, output.shape)
    node.outputs[0] = product
    inputs = [product, names.constant(f"{output.name}_shift", summand.astype(dtype))]
    graph.nodes.append(gs.Node(op="Add", inputs=inputs, outputs=[output]))
