"""Replace what depends on constants alone, or on shapes that are known, by its value.

Requires: static input shapes, or fewer shapes can be folded. Ensures: the same outputs, since each value is computed by
onnxruntime itself, and nothing is left to fold: a folded value may give later shapes, so folding and shape inference
alternate until no Shape has a known input. A value above SIZE_LIMIT_BYTES stays computed, so that a Tile or Expand does
not blow the file up.

Does *not* compute an If or Loop, nor sequences of tensors. An If with a known condition gives way to its branch,
unless the graph holds one whose output is a graph output or which holds a further subgraph.

onnx-graphsurgeon folds inside of subgraphs alone. It would write all weights into the message that onnxruntime gets, which
ends at 2 GiB, and its folding of shapes has two faults: a Shape with `start` or `end` (opset 15) becomes the whole shape,
and Cast -> Mul 0.5 -> Cast around integers becomes an integer Mul by 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx import helper, shape_inference
from onnx_graphsurgeon.importers.onnx_importer import OnnxImporter

from fts.engines.onnxruntime_session import import_onnxruntime, open_session
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.graph_reading import static_shape
from fts_converters.passes.resolve_sequences import MAKERS, READERS

SIZE_LIMIT_BYTES = 16 * 2**20
# A quantized weight stays one: computed, it would be a float weight again.
NEVER_COMPUTED = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})


def fold_constants(model: Model) -> PassResult:
    """`is_changed` when a node was folded."""
    import_onnxruntime()  # before graph-surgeon does, so that its usage data is off
    gs.logger.G_LOGGER.severity = gs.logger.G_LOGGER.ERROR
    before = len(model.graph.nodes)
    has_subgraphs = any(_has_subgraph(node) for node in model.graph.nodes)
    _infer_shapes(model)
    while True:
        is_changed = _fold_known_shapes(model.graph)
        is_changed |= _lower_constant_nodes(model.graph)
        is_changed |= _fold_computed(model)
        if has_subgraphs:
            model.graph.fold_constants(
                fold_shapes=False,
                size_threshold=SIZE_LIMIT_BYTES,
                error_ok=False,
                should_exclude_node=lambda node: True,  # of the main graph: all that can be folded is
                flatten_subgraphs=_can_inline(model.graph),
            )
        model.graph.cleanup(remove_unused_graph_inputs=False)
        if not is_changed and not has_subgraphs:
            break
        _infer_shapes(model)
        if not _foldable_shapes(model.graph):
            break
    return PassResult(is_changed=len(model.graph.nodes) != before)


def _has_subgraph(node: gs.Node) -> bool:
    """onnx-graphsurgeon would drop a Loop body's unread inputs before it has the Loop computed."""
    return any(isinstance(value, gs.Graph) for value in node.attrs.values())


def _is_left_computed(node: gs.Node) -> bool:
    """onnx-graphsurgeon takes a sequence for a tensor when it copies a graph; `resolve_sequences` makes tensors of it."""
    return _has_subgraph(node) or node.op in MAKERS or node.op in READERS


def _can_inline(graph: gs.Graph) -> bool:
    """Whether onnx-graphsurgeon may inline each If whose condition is known.

    It loses the name of a graph output, and what an If inside of an If makes.
    """
    outputs = {id(tensor) for tensor in graph.outputs}
    for node in graph.nodes:
        if node.op == "If":
            branches = [value for value in node.attrs.values() if isinstance(value, gs.Graph)]
            if any(id(t) in outputs for t in node.outputs) or any(_has_subgraph(n) for b in branches for n in b.nodes):
                return False
    return True


def _lower_constant_nodes(graph: gs.Graph) -> bool:
    """Constant nodes become initializers; one that holds text or a sparse tensor stays."""
    is_changed = False
    for node in graph.nodes:
        if node.op != "Constant" or len(node.outputs) != 1 or len(node.attrs) != 1:
            continue
        ((name, value),) = node.attrs.items()
        if name not in ("value", "value_float", "value_floats", "value_int", "value_ints"):
            continue
        tensor = node.outputs[0]
        tensor.to_constant(
            value._values if isinstance(value, gs.Constant) else np.array(value)
        )  # a lazy value stays so
        node.outputs.clear()
        is_changed = True
    return is_changed


def _fold_computed(model: Model) -> bool:
    """All that hangs on constants alone, in one run of onnxruntime."""
    makers = _computable(model.graph)
    computed = [t for node in makers for t in node.outputs if not t.is_empty() and not _is_known_large(t)]
    if not computed:
        return False
    part = gs.Graph(
        nodes=_needed(makers, computed),
        outputs=computed,
        name=model.graph.name,
        opset=model.graph.opset,
        import_domains=model.graph.import_domains,
        functions=model.graph.functions,
    )
    net = Model(graph=part, source=model.source, source_sha256="").to_light()
    session = open_session(
        net.proto.SerializeToString(), weights=net.weights, what=f"{model.source}: its constant expressions"
    )
    is_changed = False
    for tensor, value in zip(computed, session.run({}), strict=True):
        if (
            isinstance(value, np.ndarray) and value.nbytes <= SIZE_LIMIT_BYTES
        ):  # else a sequence of tensors, or too large
            tensor.to_constant(value)
            tensor.inputs.clear()
            is_changed = True
    return is_changed


def _computable(graph: gs.Graph) -> list[gs.Node]:
    """Nodes whose inputs are constants or made by such nodes, in graph order."""
    makers: list[gs.Node] = []
    made: set[int] = set()
    for node in graph.nodes:
        if node.op in NEVER_COMPUTED or _is_left_computed(node):
            continue
        if all(isinstance(t, gs.Constant) or t.is_empty() or id(t) in made for t in node.inputs):
            makers.append(node)
            made.update(id(t) for t in node.outputs)
    return makers


def _needed(makers: list[gs.Node], computed: list[gs.Tensor]) -> list[gs.Node]:
    """Those of the makers that the computed tensors depend on: what makes large values alone does not run."""
    wanted = {id(t) for t in computed}
    needed = []
    for node in reversed(makers):
        if any(id(t) in wanted for t in node.outputs):
            needed.append(node)
            wanted.update(id(t) for t in node.inputs)
    return needed[::-1]


def _is_known_large(tensor: gs.Tensor) -> bool:
    shape = static_shape(tensor)
    if shape is None or tensor.dtype is None:
        return False
    dtype = helper.tensor_dtype_to_np_dtype(tensor.dtype) if isinstance(tensor.dtype, int) else tensor.dtype
    return prod(shape) * np.dtype(dtype).itemsize > SIZE_LIMIT_BYTES


def _fold_known_shapes(graph: gs.Graph) -> bool:
    found = _foldable_shapes(graph)
    for node, shape in found:
        value = node.outputs[0]
        node.outputs.clear()
        value.to_constant(np.array(shape, dtype=np.int64))
    return bool(found)


def _foldable_shapes(graph: gs.Graph) -> list[tuple[gs.Node, list[int]]]:
    """Shape nodes with what they give; a graph output keeps its node."""
    outputs = {id(tensor) for tensor in graph.outputs}
    found = ((node, _known_shape(node)) for node in graph.nodes if node.outputs and id(node.outputs[0]) not in outputs)
    return [(node, shape) for node, shape in found if shape is not None]


def _known_shape(node: gs.Node) -> list[int] | None:
    """What a Shape node gives, when its input is static in the axes that it asks for.

    Source: onnx Operators.md, Shape-15: shape[start:end], both clamped to the rank, as a Python slice does.
    """
    if node.op != "Shape" or node.domain not in (None, "", "ai.onnx") or node.inputs[0].shape is None:
        return None
    wanted = list(node.inputs[0].shape)[node.attrs.get("start", 0) : node.attrs.get("end")]
    return wanted if all(isinstance(n, int) and n >= 0 for n in wanted) else None


def _infer_shapes(model: Model) -> None:
    """Shapes, types and kinds of all variables, as far as onnx can tell; a shape that was known and is not told stays."""
    inferred = shape_inference.infer_shapes(model.to_light().proto, data_prop=True).graph
    infos: Mapping[str, onnx.ValueInfoProto] = {
        v.name: v for values in (inferred.output, inferred.input, inferred.value_info) for v in values
    }
    for name, tensor in model.graph.tensors().items():
        if not isinstance(tensor, gs.Variable):
            continue
        info = infos.get(name)
        kind = None if info is None else info.type.WhichOneof("value")
        tensor.type = kind or "tensor_type"  # a sequence of tensors is no tensor
        if info is None or kind is None:
            continue
        known = OnnxImporter.import_tensor(info)
        tensor.shape = tensor.shape if known.shape is None else known.shape
        tensor.dtype = tensor.dtype if known.dtype is None else known.dtype
