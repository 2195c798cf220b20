"""Scaled dot-product attention becomes one Attention, from opset 23 on.

    softmax(s q k^T + mask) v

The factor s on the scores, on q, on k, or split over the two; k transposed by a Transpose of its own, or by the one that
splits the heads. Requires: static shapes of 3 or 4 axes, no broadcast between q, k and v, float32, a positive factor,
inner values read by nobody else. An older net keeps the spelling, and it is reported, once for each attention with its
nodes: no engine of this version reads opset 23, so the net is not raised to it.

Source: Vaswani et al. 2017, arXiv:1706.03762, eq. (1); onnx Operators.md, Attention-23.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.model import Model
from fts_converters.passes.contract import PassResult, Refusal
from fts_converters.passes.each_node import until_stable
from fts_converters.passes.graph_editing import TensorNames, finish, replace_by
from fts_converters.passes.graph_reading import is_output, label, only_reader, producer, rank, scalar, static_shape

FIRST_OPSET = 23


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpelledAttention:
    """A match.

    Attributes:
        query: q (..., L, E), before any factor.
        turned_key: k^T (..., E, S), before any factor.
        value: v (..., S, D).
        mask: What is added to the scores, or None.
        scale: s, all factors together.
        nodes: q k^T, softmax and the product with v, the last one last.
    """

    query: gs.Tensor
    turned_key: gs.Tensor
    value: gs.Tensor
    mask: gs.Tensor | None
    scale: float
    nodes: tuple[gs.Node, gs.Node, gs.Node]


def recognise_attention(model: Model) -> PassResult:
    """One Attention for each group."""
    return until_stable(_recognise, model)


def _recognise(model: Model) -> PassResult:
    graph = model.graph
    names = TensorNames(graph)
    own = {id(node) for node in graph.nodes}
    refusals = []
    is_changed = False
    for node in list(graph.nodes):
        found = _match(graph, node)
        if isinstance(found, str):
            refusals.append(Refusal(node=label(node), reason=found))
            continue
        if found is None or id(found.nodes[-1]) not in own:
            continue
        reason = _obstacle(found)
        what = f"attention ({', '.join(label(n) for n in found.nodes)})"
        if reason:
            refusals.append(Refusal(node=label(node), reason=f"{what}: {reason}"))
        elif model.opset < FIRST_OPSET:
            reason = f"{what}: Attention exists from opset {FIRST_OPSET} on, the net has {model.opset}"
            refusals.append(Refusal(node=label(node), reason=reason, needs_opset=FIRST_OPSET))
        else:
            _replace(graph, found, names)
            is_changed = True
    if is_changed:
        finish(graph)
    return PassResult(is_changed=is_changed, refusals=tuple(refusals))


def _match(graph: gs.Graph, softmax: gs.Node) -> SpelledAttention | str | None:
    if softmax.op != "Softmax" or softmax.domain:
        return None
    axes = rank(softmax.inputs[0])
    if axes is None or int(softmax.attrs.get("axis", -1)) not in (-1, axes - 1):
        return None
    weights = softmax.outputs[0]
    last = next((n for n in weights.outputs if n.op == "MatMul" and not n.domain and n.inputs[0] is weights), None)
    if last is None:
        return None
    scores, mask = _inner(graph, softmax.inputs[0]), None
    plus = producer(scores, "Add")
    if plus is not None:
        sides = [(a, b) for a, b in (plus.inputs, plus.inputs[::-1]) if _product_behind(graph, a) is not None]
        if len(sides) != 1:
            return None
        scores, mask = sides[0]
    behind = _product_behind(graph, scores)
    if behind is None:
        return None
    product, scale = behind
    if only_reader(graph, weights) is not last:
        return f"attention ({label(product)}, {label(softmax)}, {label(last)}): its weights are read by others too"
    query, q_factor = _unscaled(graph, product.inputs[0])
    key, k_factor = _unscaled(graph, product.inputs[1])
    return SpelledAttention(
        query=query,
        turned_key=key,
        value=last.inputs[1],
        mask=mask,
        scale=scale * q_factor * k_factor,
        nodes=(product, softmax, last),
    )


def _inner(graph: gs.Graph, tensor: gs.Tensor) -> gs.Tensor | None:
    """The tensor, when nothing but its one reader depends on it."""
    return None if is_output(graph, tensor) or len(tensor.outputs) != 1 else tensor


def _product_behind(graph: gs.Graph, tensor: gs.Tensor | None) -> tuple[gs.Node, float] | None:
    """(MatMul, factor) that make a tensor."""
    if tensor is None:
        return None
    source, factor = _unscaled(graph, tensor)
    product = producer(source, "MatMul")
    return None if product is None or _inner(graph, source) is None else (product, factor)


def _unscaled(graph: gs.Graph, tensor: gs.Tensor) -> tuple[gs.Tensor, float]:
    """(source, factor) with tensor = source * factor; factors that others read too stay in the source."""
    factor = 1.0
    while _inner(graph, tensor) is not None and len(tensor.inputs) == 1:
        node = tensor.inputs[0]
        if node.domain or node.op not in ("Mul", "Div"):
            break
        sides = [(node.inputs[0], node.inputs[1])]
        if node.op == "Mul":
            sides.append((node.inputs[1], node.inputs[0]))
        found = next(((source, n) for source, other in sides if (n := scalar(other)) is not None and n != 0), None)
        if found is None or rank(found[0]) != rank(tensor):
            break
        tensor = found[0]
        factor = factor * found[1] if node.op == "Mul" else factor / found[1]
    return tensor, factor


def _obstacle(found: SpelledAttention) -> str:
    shapes = [static_shape(t) for t in (found.query, found.turned_key, found.value)]
    if any(s is None for s in shapes):
        return "its shapes are not known"
    query, key, value = (s for s in shapes if s is not None)
    if len(query) not in (3, 4) or not query[:-2] == key[:-2] == value[:-2]:
        return "it broadcasts, or has other than 3 or 4 axes, which the operator does not take"
    if any(t.dtype != np.float32 for t in (found.query, found.turned_key, found.value)):
        return "it is recognised in float32 only"
    if found.scale <= 0:
        return "its factor is not positive"
    if found.mask is None:
        return ""
    mask = static_shape(found.mask)
    wanted = (query[-2], value[-2])
    if mask is None or mask[-2:] != wanted or len(mask) > len(query):
        return "its mask is not one of queries by keys"
    if len(query) == 3 and len(mask) == 3:
        return "its mask differs from batch to batch of three axes, which the operator reads as heads"
    return ""


def _replace(graph: gs.Graph, found: SpelledAttention, names: TensorNames) -> None:
    inputs = [found.query, _key(graph, found.turned_key, names), found.value]
    if found.mask is not None:
        inputs.append(found.mask)
    attrs: dict[str, object] = {"scale": found.scale}
    if rank(found.query) == 3:  # (batch, length, heads * size), of one head
        attrs.update({"q_num_heads": 1, "kv_num_heads": 1})
    replace_by(graph, found.nodes[-1], "Attention", inputs, attrs)


def _key(graph: gs.Graph, turned: gs.Tensor, names: TensorNames) -> gs.Tensor:
    """k (..., S, E)."""
    axes = len(turned.shape)
    swap = [*range(axes - 2), axes - 1, axes - 2]
    source, perm = turned, swap
    before = producer(turned, "Transpose")
    if before is not None:
        first = [int(p) for p in before.attrs.get("perm", range(axes)[::-1])]
        source, perm = before.inputs[0], [first[i] for i in swap]
    if perm == list(range(axes)):
        return source
    key = names.variable(f"{turned.name}_key", turned, [turned.shape[i] for i in swap])
    graph.nodes.append(gs.Node(op="Transpose", name=key.name, attrs={"perm": perm}, inputs=[source], outputs=[key]))
    return key
