"""Rung 3: roundings and biases trained together over the calibrate split; extra `torch`.

What `train_roundings` needs, from the encoded graph: which tensors are integers on which grids, and the integers of each
weight. Weights that an operator in float reads too, and those on asymmetric grids, stay as they are. Pairs of weights are
not bounded while they train; what is over the bound the encoding gives back.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from fts.vocabulary.quantization import QuantParams
from fts_calibration.recovery.weight_update import WeightUpdate
from fts_converters.quantize.encode_qdq import SIGN
from fts_converters.quantize.units import Unit
from fts_converters.quantize.weight_grid import weight_grid
from fts_converters.recover.planned_net import PlannedNet

# Places between input and output at which the float net is matched too.
BLOCKS = 8


def trained_blocks(net: PlannedNet, start: WeightUpdate, *, minutes: float) -> WeightUpdate:
    """`start` with trained weights and biases.

    Args:
        net: What is quantized how.
        start: Where training begins.
        minutes: Time allowed.

    Raises:
        MissingDependencyError: torch is not installed.
        UnsupportedOpError: The twin lacks an operator of the net.
    """
    from fts_calibration.train.train_roundings import TrainedBias, TrainedWeight, train_roundings
    from fts_calibration.train.twin import Twin

    units = net.weighted_units()
    fixed = [u for u in units if not _is_trainable(net, u, units)]
    trained = {u.weight: u for u in units if u not in fixed}
    nodes = {n.name: n for n in net.index.model.graph.node}
    scales = {tensor: _scale(net, u, start) for tensor, u in trained.items()}
    with_bias = [u for u in units if net.bias_matters(u)]
    weights = [
        TrainedWeight(
            tensor=tensor,
            values=net.rounded_weight(u, start),
            scale=scales[tensor].reshape([-1 if axis == u.weight_axis else 1 for axis in range(_rank(net, tensor))]),
            qmax=net.weight_form(u).most,
        )
        for tensor, u in trained.items()
    ]
    biases = [
        TrainedBias(
            tensor=nodes[u.name].output[0],
            values=start.biases.get(u.name, net.own_bias(u)) - net.own_bias(u),
            axis=1,
        )
        for u in with_bias
    ]
    ends = [u.output for u in units[len(units) // BLOCKS :: max(len(units) // BLOCKS, 1)]]
    found = train_roundings(
        Twin(net.index.model, net.index.weights),
        weights,
        biases,
        grids_of(net, net.encode(start)),
        [name for name in dict.fromkeys(ends) if name not in net.index.outputs],
        net.feeds(),
        seconds=60 * minutes,
    )
    moved = zip(with_bias, found.biases, strict=True)
    return start.joined(
        WeightUpdate(
            weights={w.tensor: values for w, values in zip(weights, found.weights, strict=True)},
            weight_scales=scales,
            biases={u.name: net.own_bias(u) + added for u, added in moved},
        )
    )


def grids_of(net: PlannedNet, encoded: onnx.ModelProto) -> dict[str, tuple[QuantParams, int]]:
    """Grid and number of axes of each activation that is rounded, by its name in the float net."""
    constants = {t.name: t for t in encoded.graph.initializer}
    readers = {name: (n, i) for n in encoded.graph.node for i, name in enumerate(n.input)}
    floats = {n.name: n for n in net.index.model.graph.node}
    found = {}
    for node in encoded.graph.node:
        is_read = node.op_type == "DequantizeLinear" and node.input[0] not in constants and len(node.input) > 2
        is_for_sums = node.op_type == "QuantizeLinear" and constants[node.input[2]].data_type == onnx.TensorProto.INT8
        if not is_read and not is_for_sums:
            continue
        name = node.input[0] if is_for_sums else node.output[0]
        if name not in net.index.names:  # an integer kernel's operand: its name stands in the float net's node
            reader, position = readers[name]
            name = floats[reader.name].input[position]
        shape = net.index.shape(name)
        if shape is None:
            continue
        scale, zero_point = (numpy_helper.to_array(constants[i]) for i in node.input[1:3])
        zero_point = zero_point.astype(np.int32) + (SIGN if is_for_sums else 0)
        axis = next((a.i for a in node.attribute if a.name == "axis"), None) if scale.ndim else None
        grid = QuantParams(
            scale=scale.reshape(-1),
            zero_point=zero_point.reshape(-1),
            scheme=net.dialect.activation,
            axis=axis,
        )
        found[name] = (grid, len(shape))
    return found


def _is_trainable(net: PlannedNet, unit: Unit, units: list[Unit]) -> bool:
    names = {u.name for u in units if u.weight == unit.weight and u.weight_axis == unit.weight_axis}
    readers = {r.name for r in net.index.readers.get(unit.weight, [])}
    return net.dialect.weight.symmetric and readers <= names and unit.weight not in net.index.captured


def _scale(net: PlannedNet, unit: Unit, start: WeightUpdate) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    if unit.weight in start.weight_scales:
        return start.weight_scales[unit.weight]
    weight = start.weights.get(unit.weight, net.index.array(unit.weight))
    form = net.weight_form(unit)
    return weight_grid(weight, form.scheme, unit.weight_axis, form.pair_sum_limit).scale


def _rank(net: PlannedNet, tensor: str) -> int:
    shape = net.index.shape(tensor)
    assert shape is not None
    return len(shape)
