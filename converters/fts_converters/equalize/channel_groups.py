"""Find the groups of channels that must share a factor, and what keeps a group at factor 1.

Scaling channel c of a tensor by s_c > 0 leaves a net's function as it is when every operator on the way either passes the
factor on or takes it up in constants. Two channels that meet (in a sum, in a window over both, in one slot of a reshape)
are tied; so groups are the classes of a union-find over all (tensor, channel). A group that reaches an input or output of
the net, a subgraph, or an operator with neither kind of rule is blocked: its factor is 1.

Requires: a valid graph in topological order. float32 tensors of known shape take part, all others block.
Does *not* look into subgraphs, and does not scale what several constants multiply out (MatMul of two live tensors).

Source: Nagel et al. 2019, arXiv:1906.04721, section 4.1 (positive scaling equivariance); Meller et al. 2019,
arXiv:1902.01917 (over residual adds and concats).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_graphsurgeon as gs
from onnx import shape_inference

from fts_converters.equalize.link_rules import LINK_RULES
from fts_converters.equalize.movement_rules import MOVEMENT_RULES
from fts_converters.equalize.ties import Ids
from fts_converters.equalize.trace import Absorber, Channels, NormInput, Shape, Trace
from fts_converters.equalize.weighted_rules import WEIGHTED_RULES, Rule
from fts_converters.model import Model
from fts_converters.passes.contract import Refusal
from fts_converters.passes.graph_reading import static_shape

RULES: Mapping[str, Rule] = {**WEIGHTED_RULES, **LINK_RULES, **MOVEMENT_RULES}
# Operators whose first input may be a constant while another one is scaled.
ANY_OPERAND_IS_DATA = frozenset({"Add", "Concat", "Max", "Mean", "Min", "Mul", "Sub", "Sum", "Where"})
# They read shapes alone, or nothing.
NO_DATA = frozenset({"Constant", "Shape", "Size"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChannelGroups:
    """Groups 0 .. count-1 of channels that share a factor; valid for the graph as it was.

    Attributes:
        count: Number of groups, blocked ones too.
        channels: How each tensor is scaled, by its name; `ids` are groups.
        absorbers: Constants that take factors up; `ids` are groups.
        norms: Inputs of norms; `ids` are groups.
        blocked: Group to the reason why it stays at factor 1.
    """

    count: int
    channels: Mapping[str, Channels]
    absorbers: tuple[Absorber, ...]
    norms: tuple[NormInput, ...]
    blocked: Mapping[int, Refusal]

    @property
    def free(self) -> Ids:
        """Groups whose factor may be chosen, ascending."""
        return np.array([g for g in range(self.count) if g not in self.blocked], np.int64)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """What blocks channels that weights in front of them could scale, each once."""
        made = {int(g) for a in self.absorbers if a.sign > 0 and a.is_weight for g in np.unique(a.ids)}
        return tuple(dict.fromkeys(self.blocked[g] for g in sorted(made & set(self.blocked))))


def channel_groups(model: Model) -> ChannelGroups:
    """Find them; the model is not changed."""
    graph = model.graph
    trace = Trace(_float_shapes(graph), model.opset)
    for value in graph.inputs:
        trace.block(value, None, "it is an input of the net")
    needed = _needed(graph)
    for node in graph.nodes:
        if id(node) in needed:  # what nobody needs, and `finish` drops, ties and blocks nothing
            _visit(trace, node)
    for value in graph.outputs:
        trace.block(value, None, "it is an output of the net")
    return _groups(trace)


def _needed(graph: gs.Graph) -> set[int]:
    """Identities of the nodes that an output depends on."""
    makers = {t.name: node for node in graph.nodes for t in node.outputs if t.name}
    needed: set[int] = set()
    names = [t.name for t in graph.outputs]
    while names:
        node = makers.get(names.pop())
        if node is not None and id(node) not in needed:
            needed.add(id(node))
            names.extend((*(t.name for t in node.inputs), *_captured(node)))
    return needed


def _visit(trace: Trace, node: gs.Node) -> None:
    if node.op in NO_DATA and not node.domain:
        return
    for name in _captured(node):
        if name in trace.channels:
            trace.block(gs.Variable(name), node, f"a subgraph of {node.op} reads it")
    reason = _refusal(trace, node)
    if reason:
        for tensor in (*node.inputs, *node.outputs):
            if tensor.name in trace.channels or any(tensor is t for t in node.outputs):
                trace.block(tensor, node, reason)


def _refusal(trace: Trace, node: gs.Node) -> str:
    """Applies the operator's rule; why no factor passes, or ""."""
    rule = RULES.get(node.op) if node.domain in (None, "", "ai.onnx") else None
    if rule is None:
        return f"no factor passes through {node.op}"
    live = [t.name in trace.channels for t in node.inputs]
    if not (any(live) if node.op in ANY_OPERAND_IS_DATA else live and live[0]):
        return f"{node.op}: its data is a constant, no float32, or of unknown shape"
    if not all(t.name in trace.shapes for t in node.outputs if t.name):
        return f"{node.op}: its output is no float32, or of unknown shape"
    reason = rule(trace, node)
    return reason and f"{node.op}: {reason}"


def _captured(node: gs.Node) -> Iterator[str]:
    """Names that the subgraphs of a node read, their own included."""
    for value in node.attrs.values():
        if isinstance(value, gs.Graph):
            yield from (t.name for t in value.outputs)
            for inner in value.nodes:
                yield from (t.name for t in inner.inputs)
                yield from _captured(inner)


def _float_shapes(graph: gs.Graph) -> dict[str, Shape]:
    """Shape of each float32 tensor of one or more axes, none of them empty; inferred where the graph is below 2 GiB."""
    proto = gs.export_onnx(graph, do_type_check=False)
    if proto.ByteSize() < 2**31 - 1:
        proto = shape_inference.infer_shapes(proto, data_prop=True)
    known = gs.import_onnx(proto).tensors()
    variables = ((n, t) for n, t in known.items() if isinstance(t, gs.Variable) and t.dtype == np.float32)
    shapes = ((name, static_shape(tensor)) for name, tensor in variables)
    return {name: shape for name, shape in shapes if shape and 0 not in shape}


def _groups(trace: Trace) -> ChannelGroups:
    """Number the roots in the order in which the graph meets them."""
    numbers: dict[int, int] = {}

    def group_of(ids: Ids) -> Ids:
        roots = trace.ties.roots(ids)
        for root in roots.reshape(-1).tolist():
            numbers.setdefault(root, len(numbers))
        return np.array([numbers[r] for r in roots.reshape(-1).tolist()], np.int64).reshape(ids.shape)

    channels = {name: Channels(axis=c.axis, ids=group_of(c.ids)) for name, c in trace.channels.items()}
    absorbers = tuple(
        Absorber(node=a.node, position=a.position, ids=group_of(a.ids), sign=a.sign, is_weight=a.is_weight)
        for a in trace.absorbers
    )
    norms = tuple(
        NormInput(node=n.node, tensor=n.tensor, ids=group_of(n.ids), view=n.view, epsilon=n.epsilon)
        for n in trace.norms
    )
    refusals = {number: trace.ties.refusal(root) for root, number in numbers.items()}
    blocked = {number: refusal for number, refusal in refusals.items() if refusal is not None}
    return ChannelGroups(count=len(numbers), channels=channels, absorbers=absorbers, norms=norms, blocked=blocked)
