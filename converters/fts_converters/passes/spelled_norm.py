"""Find a normalisation that is spelled out in elementary operators, whatever its axes.

    y = (x - m) (k v + eps)^(-1/2) gamma + beta,    m = mean(x),  v = mean((x - m)^2)

The mean by ReduceMean, ReduceSum over the count, GlobalAveragePool, or one axis after the other, its axes kept or put back; x - m
computed once or twice; the square by Mul, Pow or ReduceSumSquare; the root by Sqrt or Pow, its inverse by Div, Reciprocal
or Pow; gamma behind the quotient or inside of it; or as TensorFlow has it: x f + (beta - m f), f = gamma (v + eps)^(-1/2).
A factor k of the variance, n / (n - 1) where it is unbiased, becomes eps / k and a gain of k^(-1/2).

Finds only; `recognise_instance_norm` and `recognise_layer_norm` decide by the axes. Does *not* take mean(x^2) - m^2 for a
variance: where |m| is large against the deviation it cancels to other digits, even to negative ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import onnx_graphsurgeon as gs

from fts_converters.passes.graph_reading import only_reader, producer, rank, reduce_axes, scalar, static_shape
from fts_converters.passes.polynomial import are_inner

# Of a factor that should be 1: numbers such as 1 / n are float32.
ROUNDING = 1e-6
SHAPE_ONLY = frozenset({"Reshape", "Unsqueeze", "Squeeze", "Expand"})
MEANS = frozenset({"ReduceMean", "ReduceSum", "ReduceSumSquare", "GlobalAveragePool"})
Nodes = tuple[gs.Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpelledNorm:
    """A match.

    Attributes:
        data: x.
        axes: Normalised axes, not negative, rising.
        epsilon: Added to the variance: eps / k.
        gain: Factor of the normalised value: k^(-1/2).
        scale: gamma where it stands inside of the group, or None.
        bias: beta, likewise.
        last: Node that makes y.
    """

    data: gs.Tensor
    axes: tuple[int, ...]
    epsilon: float
    gain: float
    scale: gs.Tensor | None
    bias: gs.Tensor | None
    last: gs.Node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Affine:
    """What a norm is scaled and shifted by: y * scale + bias.

    Attributes:
        scale: gamma, or None.
        bias: beta, or None.
        last: The node that makes the final value.
    """

    scale: gs.Tensor | None
    bias: gs.Tensor | None
    last: gs.Node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mean:
    """factor * mean(data over axes), or of its squares.

    Attributes:
        value: The tensor that it is.
        data: What the mean is taken of.
        axes: Of data, not negative, rising.
        factor: 1 for the mean itself.
        is_of_squares: ReduceSumSquare.
        is_reshaped: Axes were dropped or put back, so that shapes have to be compared.
        nodes: The nodes between.
    """

    value: gs.Tensor
    data: gs.Tensor
    axes: tuple[int, ...]
    factor: float
    is_of_squares: bool
    is_reshaped: bool
    nodes: Nodes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Centred:
    """x - mean(x over axes), or its negative.

    Attributes:
        data: x.
        mean: The tensor of the mean.
        axes: Of x.
        is_negative: mean - x.
        nodes: The nodes between.
    """

    data: gs.Tensor
    mean: gs.Tensor
    axes: tuple[int, ...]
    is_negative: bool
    nodes: Nodes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deviation:
    """(k v + eps)^power.

    Attributes:
        value: The tensor that it is.
        variance: k v.
        epsilon: eps.
        power: 0.5 or -0.5.
        is_reshaped: As in Mean.
        nodes: The nodes between, the one that adds eps included.
    """

    value: gs.Tensor
    variance: gs.Tensor
    epsilon: float
    power: float
    is_reshaped: bool
    nodes: Nodes


def find_spelled_norm(graph: gs.Graph, node: gs.Node, opset: int) -> SpelledNorm | str | None:
    """Match with `node` as the one that makes y; a string says why something that looks like it is none."""
    if node.domain or len(node.inputs) != 2 or len(node.outputs) != 1:
        return None
    if node.op in ("Div", "Mul"):
        return _quotient(graph, node, opset)
    if node.op in ("Add", "Sub"):
        return _tensorflow_form(graph, node, opset)
    return None


def find_affine(graph: gs.Graph, norm: SpelledNorm, is_parameter: Callable[[gs.Tensor], bool]) -> Affine | str:
    """gamma and beta, inside of the group and behind it, as far as they are there and are parameters.

    Returns:
        A string when one inside of the group is none.
    """
    if any(t is not None and not is_parameter(t) for t in (norm.scale, norm.bias)):
        return "what it is scaled or shifted by inside of the group does not fit the operator's parameters"
    scale, bias, last = norm.scale, norm.bias, norm.last
    if scale is None and bias is None:
        scale, last = _operand(graph, last, "Mul", is_parameter)
    if bias is None:
        bias, last = _operand(graph, last, "Add", is_parameter)
    return Affine(scale=scale, bias=bias, last=last)


def read_means(tensor: gs.Tensor, opset: int) -> Iterator[Mean]:
    """The ways in which a tensor is a mean: of its reduction's input, and of what that is a mean of in turn."""
    value, factor, is_reshaped = tensor, 1.0, False
    nodes: list[gs.Node] = []
    while (node := _maker(value)) is not None and node.op not in MEANS:
        nodes.append(node)
        if node.op in SHAPE_ONLY:
            value, is_reshaped = node.inputs[0], True
        elif node.op == "Neg":
            value, factor = node.inputs[0], -factor
        else:
            scaled = _scaled(node)
            if scaled is None:
                return
            value, factor = scaled[0], factor * scaled[1]
    axes = None if node is None else _mean_axes(node, opset)
    if node is None or not axes:
        return
    data = node.inputs[0]
    if node.op in ("ReduceSum", "ReduceSumSquare"):
        shape = static_shape(data)
        if shape is None:
            return
        factor *= math.prod(shape[a] for a in axes)
    keeps = node.op == "GlobalAveragePool" or bool(node.attrs.get("keepdims", 1))
    found = Mean(
        value=tensor,
        data=data,
        axes=axes,
        factor=factor,
        is_of_squares=node.op == "ReduceSumSquare",
        is_reshaped=is_reshaped or not keeps,
        nodes=(*nodes, node),
    )
    yield found
    if found.is_of_squares or not keeps:
        return
    for inner in read_means(data, opset):
        if not inner.is_reshaped:
            yield Mean(
                value=tensor,
                data=inner.data,
                axes=tuple(sorted({*axes, *inner.axes})),
                factor=factor * inner.factor,
                is_of_squares=inner.is_of_squares,
                is_reshaped=is_reshaped,
                nodes=(*found.nodes, *inner.nodes),
            )


def square_base(mean: Mean) -> tuple[gs.Tensor, Nodes] | None:
    """b when the mean is one of b * b or b ** 2."""
    if mean.is_of_squares:
        return mean.data, ()
    node = producer(mean.data, "Mul")
    if node is not None and node.inputs[0] is node.inputs[1]:
        return node.inputs[0], (node,)
    node = producer(mean.data, "Pow")
    if node is not None and scalar(node.inputs[1]) == 2.0:
        return node.inputs[0], (node,)
    return None


def read_deviation(tensor: gs.Tensor) -> Deviation | None:
    """A root of a sum with a number, or the inverse of one, through reshapes."""
    value, power, is_reshaped = tensor, 1.0, False
    nodes: list[gs.Node] = []
    while (node := _maker(value)) is not None:
        nodes.append(node)
        if node.op in SHAPE_ONLY:
            value, is_reshaped = node.inputs[0], True
        elif node.op == "Sqrt":
            value, power = node.inputs[0], power * 0.5
        elif node.op == "Reciprocal":
            value, power = node.inputs[0], -power
        elif node.op == "Div" and scalar(node.inputs[0]) == 1.0:
            value, power = node.inputs[1], -power
        elif node.op == "Pow" and scalar(node.inputs[1]) in (0.5, -0.5, -1.0):
            value, power = node.inputs[0], power * (scalar(node.inputs[1]) or 0.0)
        elif node.op == "Add" and abs(power) == 0.5:
            for variance, number in (node.inputs, node.inputs[::-1]):
                epsilon = scalar(number)
                if epsilon is not None and epsilon >= 0:
                    return Deviation(
                        value=tensor,
                        variance=variance,
                        epsilon=epsilon,
                        power=power,
                        is_reshaped=is_reshaped,
                        nodes=tuple(nodes),
                    )
            return None
        else:
            return None
    return None


def factor_and_parameter(tensor: gs.Tensor) -> Iterator[tuple[Deviation, gs.Tensor | None, Nodes]]:
    """(k v + eps)^power, or its product with something else."""
    deviation = read_deviation(tensor)
    if deviation is not None:
        yield deviation, None, ()
        return
    product = producer(tensor, "Mul")
    for first, second in (product.inputs, product.inputs[::-1]) if product is not None else ():
        deviation = read_deviation(first)
        if deviation is not None:
            yield deviation, second, (product,)


def _quotient(graph: gs.Graph, last: gs.Node, opset: int) -> SpelledNorm | str | None:
    pairs = [(last.inputs[0], last.inputs[1])]
    if last.op == "Mul":
        pairs.append((last.inputs[1], last.inputs[0]))
    wanted = 0.5 if last.op == "Div" else -0.5
    reason: str | None = None
    for numerator, other in pairs:
        for centred, scale, above in _numerators(numerator, opset):
            for deviation, inner_scale, below in factor_and_parameter(other):
                if deviation.power != wanted or (inner_scale is not None and (scale is not None or last.op == "Div")):
                    continue
                nodes = (last, *above, *below, *centred.nodes, *deviation.nodes)
                gamma = scale if scale is not None else inner_scale
                found = _norm(graph, last, centred, deviation, opset, gamma, None, nodes)
                if isinstance(found, SpelledNorm):
                    return found
                reason = reason or found
            if last.op == "Div" and reason is None:
                reason = _why_not(other, centred, opset)
    return reason


def _numerators(tensor: gs.Tensor, opset: int) -> Iterator[tuple[Centred, gs.Tensor | None, Nodes]]:
    """x - m, or its product with something else."""
    is_centred = False
    for centred in read_centred(tensor, opset):
        if not centred.is_negative:
            is_centred = True
            yield centred, None, ()
    product = producer(tensor, "Mul")
    if is_centred or product is None or len(product.inputs) != 2:
        return
    for first, second in (product.inputs, product.inputs[::-1]):
        for centred in read_centred(first, opset):
            if not centred.is_negative:
                yield centred, second, (product,)


def _tensorflow_form(graph: gs.Graph, last: gs.Node, opset: int) -> SpelledNorm | str | None:
    """x f + (beta - m f), or x f - m f."""
    reason: str | None = None
    for first, second in (last.inputs, last.inputs[::-1]) if last.op == "Add" else (last.inputs,):
        scaled = producer(first, "Mul")
        bias, shift, between = _shift(second) if last.op == "Add" else (None, producer(second, "Mul"), ())
        if scaled is None or shift is None:
            continue
        for data, factor in (scaled.inputs, scaled.inputs[::-1]):
            for mean, same in (shift.inputs, shift.inputs[::-1]):
                if same is not factor:
                    continue
                found = _of_factor(graph, last, (data, factor, mean, bias), (scaled, shift, *between), opset)
                if isinstance(found, SpelledNorm):
                    return found
                reason = reason or found
    return reason


def _shift(tensor: gs.Tensor) -> tuple[gs.Tensor | None, gs.Node | None, Nodes]:
    """(beta, the product, nodes) of beta - product or -product."""
    minus = producer(tensor, "Sub")
    if minus is not None:
        return minus.inputs[0], producer(minus.inputs[1], "Mul"), (minus,)
    negated = producer(tensor, "Neg")
    return (None, producer(negated.inputs[0], "Mul"), (negated,)) if negated is not None else (None, None, ())


def _of_factor(
    graph: gs.Graph,
    last: gs.Node,
    parts: tuple[gs.Tensor, gs.Tensor, gs.Tensor, gs.Tensor | None],
    nodes: Nodes,
    opset: int,
) -> SpelledNorm | str | None:
    data, factor, mean, bias = parts
    reason: str | None = None
    for read in read_means(mean, opset):
        axes = _axes_in(read, data)
        if axes is None or read.is_of_squares or abs(read.factor - 1) > ROUNDING:
            continue
        centred = Centred(data=data, mean=mean, axes=axes, is_negative=False, nodes=read.nodes)
        for deviation, scale, below in factor_and_parameter(factor):
            if deviation.power != -0.5:
                continue
            inner = (last, *nodes, *below, *centred.nodes, *deviation.nodes)
            found = _norm(graph, last, centred, deviation, opset, scale, bias, inner)
            if isinstance(found, SpelledNorm):
                return found
            reason = reason or found
    return reason


def _norm(
    graph: gs.Graph,
    last: gs.Node,
    centred: Centred,
    deviation: Deviation,
    opset: int,
    scale: gs.Tensor | None,
    bias: gs.Tensor | None,
    nodes: Nodes,
) -> SpelledNorm | str | None:
    """Put together, when the deviation is that of the same values."""
    for variance in read_means(deviation.variance, opset):
        base = square_base(variance)
        if base is None or variance.factor <= 0:
            continue
        for again in read_centred(base[0], opset):
            over = _axes_of_reduction(variance, again.data)
            if over is None or over != again.axes or _axes_through(again.data, over, centred.data) != centred.axes:
                continue
            is_reshaped = deviation.is_reshaped or variance.is_reshaped or again.data is not centred.data
            if is_reshaped and not _is_kept(deviation.value, centred.data, centred.axes):
                continue
            if not are_inner(graph, last, (*nodes, *variance.nodes, *base[1], *again.nodes)):
                return "a norm whose mean, difference or deviation is read by others too"
            factor = 1.0 if abs(variance.factor - 1) <= ROUNDING else variance.factor
            return SpelledNorm(
                data=centred.data,
                axes=centred.axes,
                epsilon=deviation.epsilon / factor,
                gain=factor**-0.5,
                scale=scale,
                bias=bias,
                last=last,
            )
    return None


def read_centred(tensor: gs.Tensor, opset: int) -> Iterator[Centred]:
    """The ways in which a tensor is something less its mean."""
    node = _maker(tensor)
    if node is None or node.op not in ("Sub", "Add") or len(node.inputs) != 2:
        return
    for data, mean, is_negative in ((*node.inputs, False), (*node.inputs[::-1], node.op == "Sub")):
        wanted = -1.0 if node.op == "Add" else 1.0
        for read in read_means(mean, opset):
            axes = _axes_in(read, data)
            if axes is not None and not read.is_of_squares and abs(read.factor - wanted) <= ROUNDING:
                yield Centred(data=data, mean=mean, axes=axes, is_negative=is_negative, nodes=(node, *read.nodes))


def _axes_in(mean: Mean, data: gs.Tensor) -> tuple[int, ...] | None:
    """The axes of `data` that the mean is taken over, when it broadcasts against it as a mean with kept axes does."""
    axes = _axes_through(mean.data, mean.axes, data)
    if axes is None:
        return None
    is_reshaped = mean.is_reshaped or mean.data is not data
    return None if is_reshaped and not _is_kept(mean.value, data, axes) else axes


def _axes_of_reduction(mean: Mean, data: gs.Tensor) -> tuple[int, ...] | None:
    """The axes of the reduction, where its input has the shape of `data`: that holds for a square."""
    first, second = rank(mean.data), rank(data)
    return mean.axes if first is None or second is None or first == second else None


def _axes_through(inner: gs.Tensor, axes: tuple[int, ...], data: gs.Tensor) -> tuple[int, ...] | None:
    """Axes of `data` that are axes of `inner`, when they are one, or `inner` is a Reshape of it with merged last axes."""
    if inner is data:
        return axes
    reshape = producer(inner, "Reshape")
    before, after = static_shape(data), static_shape(inner)
    if reshape is None or reshape.inputs[0] is not data or before is None or after is None:
        return None
    if axes != tuple(range(axes[0], len(after))):
        return None
    count = math.prod(after[axes[0] :])
    first = len(before)
    while first > 0 and math.prod(before[first:]) < count:
        first -= 1
    return tuple(range(first, len(before))) if math.prod(before[first:]) == count and first < len(before) else None


def _is_kept(tensor: gs.Tensor, data: gs.Tensor, axes: tuple[int, ...]) -> bool:
    """True when the shape is that of `data` with ones at the axes; what is expanded from it counts, too."""
    while (node := producer(tensor, "Expand")) is not None:
        tensor = node.inputs[0]
    shape, full = static_shape(tensor), static_shape(data)
    if shape is None or full is None:
        return False
    kept = tuple(1 if i in axes else n for i, n in enumerate(full))
    return (1,) * (len(kept) - len(shape)) + shape == kept


def _mean_axes(node: gs.Node, opset: int) -> tuple[int, ...] | None:
    if node.op != "GlobalAveragePool":
        return reduce_axes(node, opset)
    axes = rank(node.inputs[0])
    return None if axes is None else tuple(range(2, axes))


def _scaled(node: gs.Node) -> tuple[gs.Tensor, float] | None:
    """(other, factor) of a product with a number."""
    if node.op == "Div":
        divisor = scalar(node.inputs[1])
        return (node.inputs[0], 1.0 / divisor) if divisor else None
    if node.op != "Mul":
        return None
    for other, number in (node.inputs, node.inputs[::-1]):
        factor = scalar(number)
        if factor is not None:
            return other, factor
    return None


def _maker(tensor: gs.Tensor) -> gs.Node | None:
    node = tensor.inputs[0] if len(tensor.inputs) == 1 else None
    return node if node is not None and not node.domain and len(node.outputs) == 1 and node.inputs else None


def _why_not(tensor: gs.Tensor, centred: Centred, opset: int) -> str | None:
    """Why the divisor of x - m is no deviation of this form; None when it is none at all."""
    has_root = is_outside = is_limited = has_epsilon = False
    value = tensor
    while (node := _maker(value)) is not None:
        if node.op in ("Sqrt", "Pow"):
            has_root = True
        elif node.op in ("Max", "Clip"):
            is_limited = True
        elif node.op == "Add":
            has_epsilon = True
            is_outside |= not has_root
        elif node.op not in SHAPE_ONLY and _scaled(node) is None:
            break
        value = next((t for t in node.inputs if scalar(t) is None), node.inputs[0])
    if node is None or not has_root:
        return None
    if node.op == "Sub":
        is_difference = any(square_base(m) is not None for m in read_means(node.inputs[0], opset))
        return "a norm whose variance is mean(x^2) - mean^2, which cancels: left as it came" if is_difference else None
    spread = next((m for m in read_means(value, opset) if square_base(m) is not None), None)
    base = square_base(spread) if spread is not None else None
    if base is None or not any(c.data is centred.data for c in read_centred(base[0], opset)):
        return None
    if is_outside:
        return "a norm that adds epsilon to the deviation, not to the variance: no operator does"
    if is_limited:
        return "a norm that limits the deviation from below instead of adding epsilon: no operator does"
    return None if has_epsilon else "a norm without epsilon: it divides by 0 where the operator does not"


def _operand(
    graph: gs.Graph, last: gs.Node, op: str, is_parameter: Callable[[gs.Tensor], bool]
) -> tuple[gs.Tensor | None, gs.Node]:
    value = last.outputs[0]
    reader = only_reader(graph, value)
    if reader is None or reader.op != op or reader.domain or len(reader.inputs) != 2:
        return None, last
    if not any(reader is node for node in graph.nodes):  # it stands in a subgraph
        return None, last
    other = reader.inputs[1] if reader.inputs[0] is value else reader.inputs[0]
    return (other, reader) if is_parameter(other) else (None, last)
