"""A net as a torch module: the same numbers as ONNX Runtime, with gradients, and with any tensor open to be changed.

Each node becomes one torch function with the semantics of the ONNX specification (`operators`). The twin computes what the
graph says and nothing else: batch norms keep their statistics, and there is no training mode.

Does *not* run subgraphs (If, Loop, Scan), sequences and strings: such a net is refused at construction, the node named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import NodeProto, TensorProto, numpy_helper
from torch import Tensor, nn

from fts.errors import ModelError
from fts_calibration.train.operators import OPERATORS
from fts_calibration.train.operators.node import DEFAULT_DOMAINS, Node, Run

Array = npt.NDArray[np.generic]
Alter = Callable[[Tensor], Tensor]

# Inputs that hold what training may move; batch norms' statistics (3, 4) are measured, not trained.
TRAINABLE_INPUTS: Mapping[str, tuple[int, ...]] = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Gemm": (0, 1, 2),
    "MatMul": (0, 1),
    "BatchNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LayerNormalization": (1, 2),
    "GroupNormalization": (1, 2),
    "RMSNormalization": (1,),
}
# Of which numpy and torch have the same.
NUMPY_TYPES = frozenset(("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One node, ready to run.

    Attributes:
        run: Takes one tensor an input, None where an optional one is left out.
        inputs: Tensor names, "" where left out.
        outputs: Tensor names, "" where nobody wants it.
        finished: Tensors that no later step reads.
    """

    run: Run
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    finished: tuple[str, ...]


class Twin(nn.Module):
    """A differentiable copy of an ONNX graph.

    Initializers (and Constant nodes) that are weights of convolutions, matrix products and norms are parameters, under
    names of the net in `weights`; all others are buffers. Values are copies: training does not touch the net. A twin cannot
    be pickled: each process builds its own.

    Args:
        proto: The net, cleaned.
        weights: Values of initializers that the message holds no data of.

    Raises:
        UnsupportedOpError: A node has an operator, an attribute or a value that the twin lacks; all three are named.
        ModelError: An initializer's data is missing, or of a type that torch lacks.
    """

    def __init__(self, proto: onnx.ModelProto, weights: Mapping[str, Array] | None = None) -> None:
        super().__init__()
        graph = proto.graph
        opset = next((o.version for o in proto.opset_import if o.domain in DEFAULT_DOMAINS), 1)
        constants = _constants(graph, weights or {})
        trainable = _trainable(graph, constants)
        self._attribute_of: dict[str, str] = {}
        for name, value in constants.items():
            self._register(name, value, is_trainable=name in trainable)
        self.input_names = tuple(v.name for v in graph.input if v.name not in constants)
        self.output_names = tuple(v.name for v in graph.output)
        nodes = [n for n in graph.node if n.op_type != "Constant"]
        self._steps = _steps(nodes, opset)
        self._tensor_names = {*constants, *self.input_names, *(o for n in nodes for o in n.output if o)}

    def _register(self, name: str, value: Array, *, is_trainable: bool) -> None:
        """Under a made-up attribute: torch allows no dots in names, ONNX allows anything."""
        if value.dtype.name not in NUMPY_TYPES:
            raise ModelError(
                f"initializer {name!r} has type {value.dtype.name}, expected one of {', '.join(sorted(NUMPY_TYPES))}. "
                "Convert the net with float32 weights"
            )
        tensor = torch.from_numpy(np.array(value))
        if is_trainable:
            attribute = f"weight_{len(self._attribute_of)}"
            self.register_parameter(attribute, nn.Parameter(tensor))
        else:
            attribute = f"constant_{len(self._attribute_of)}"
            self.register_buffer(attribute, tensor)
        self._attribute_of[name] = attribute

    @property
    def weights(self) -> Mapping[str, nn.Parameter]:
        """Parameters by the names of the net's initializers."""
        found = {name: getattr(self, attribute) for name, attribute in self._attribute_of.items()}
        return {name: value for name, value in found.items() if isinstance(value, nn.Parameter)}

    def forward(
        self,
        feeds: Mapping[str, Tensor],
        watch: Iterable[str] = (),
        alter: Mapping[str, Alter] | None = None,
    ) -> dict[str, Tensor]:
        """Compute the outputs.

        Args:
            feeds: One tensor an input of the net, in the net's own shape.
            watch: Tensors to return beside the outputs: inputs, weights, constants, results of nodes.
            alter: What is put in the place of a tensor of any of these kinds, such as its fake quantization: all readers,
                the outputs and `watch` see what the function gives. It runs once a forward.

        Returns:
            Outputs in the graph's order, then what was watched.

        Raises:
            ValueError: A feed is missing, or a name in `watch` or `alter` is no tensor of the net.
        """
        alter = alter or {}
        wanted = dict.fromkeys((*self.output_names, *watch))
        self._check_names(feeds, (*wanted, *alter))
        values: dict[str, Tensor] = {}

        def put(name: str, value: Tensor) -> None:
            values[name] = alter[name](value) if name in alter else value

        for name in self.input_names:
            put(name, feeds[name])
        for name, attribute in self._attribute_of.items():
            put(name, getattr(self, attribute))
        for step in self._steps:
            result = step.run(*(values[name] if name else None for name in step.inputs))
            results = result if isinstance(result, tuple) else (result,)
            for name, value in zip(step.outputs, results, strict=False):
                if name:
                    put(name, value)
            for name in step.finished:
                if name not in wanted:
                    del values[name]
        return {name: values[name] for name in wanted}

    def _check_names(self, feeds: Mapping[str, Tensor], names: Sequence[str]) -> None:
        missing = [name for name in self.input_names if name not in feeds]
        if missing:
            raise ValueError(f"feeds lack {missing}; expected {list(self.input_names)}")
        unknown = [name for name in names if name not in self._tensor_names]
        if unknown:
            raise ValueError(f"the net has no tensor {unknown[0]!r}; expected names of inputs, initializers or results")


def _constants(graph: onnx.GraphProto, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Initializers and values of Constant nodes by name."""
    found: dict[str, Array] = {}
    for tensor in graph.initializer:
        if tensor.name in weights:
            found[tensor.name] = weights[tensor.name]
        elif tensor.data_location == TensorProto.EXTERNAL:
            raise ModelError(
                f"initializer {tensor.name!r} has its data outside the message. Give it in `weights`, or load the net "
                "with its data"
            )
        else:
            found[tensor.name] = numpy_helper.to_array(tensor)
    for node in graph.node:
        if node.op_type == "Constant":
            found[node.output[0]] = _constant_value(node)
    return found


def _constant_value(node: NodeProto) -> Array:
    attribute = node.attribute[0]
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return numpy_helper.to_array(value)
    types = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if attribute.name not in types:
        raise Node(node, opset=0).refusal(f"attribute {attribute.name!r}", "a number or a tensor of numbers")
    return np.array(value, types[attribute.name])


def _trainable(graph: onnx.GraphProto, constants: Mapping[str, Array]) -> set[str]:
    read = {n.input[i] for n in graph.node for i in TRAINABLE_INPUTS.get(n.op_type, ()) if i < len(n.input)}
    return {name for name in read if name in constants and constants[name].dtype.kind == "f"}


def _steps(nodes: Sequence[NodeProto], opset: int) -> tuple[_Step, ...]:
    last_reader = {name: i for i, node in enumerate(nodes) for name in (*node.output, *node.input) if name}
    finished: list[list[str]] = [[] for _ in nodes]
    for name, i in last_reader.items():
        finished[i].append(name)
    steps = []
    for i, proto in enumerate(nodes):
        node = Node(proto, opset=opset, index=i)
        build = OPERATORS.get(node.op_type) if node.domain in DEFAULT_DOMAINS else None
        if build is None:
            raise node.refusal("this operator", f"one of {len(OPERATORS)} operators of the default domain")
        run = build(node)
        node.refuse_unread()
        steps.append(
            _Step(
                run=run,
                inputs=tuple(proto.input),
                outputs=tuple(proto.output),
                finished=tuple(finished[i]),
            )
        )
    return tuple(steps)
