"""ConvTranspose becomes Conv, which makes all phases of the output at once, and DepthToSpace, which interleaves them.

Output o = s q + r (phase r of stride s) sums x[q + t] * w[r + p - s t] over all t that keep the kernel index inside 0..K-1:

    y[s q + r] = sum_t  x[q + t] * W'_r[t],     W'_r[t] = w[r + p - s t],   p = begin pad

so a Conv with s output channels a phase, taps t = t_min..t_max, begin pad -t_min, gives all phases; what it computes beyond
the end is cut off. Any kernel, stride, pads, output_padding, dilation and group, 1 to 3 spatial axes. Each weight appears
exactly once, so nothing is rounded; taps outside the kernel are zeros.

Refused: opsets before 11, computed weights, output_shape, auto_pad SAME, unknown sizes, and pads so large that begin or end
would crop.

Source: Shi et al. 2016, arXiv:1609.07009 ("Is the deconvolution layer the same as a convolutional layer?"), section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult
from fts_converters.passes.each_node import change_each
from fts_converters.passes.graph_editing import TensorNames
from fts_converters.passes.graph_reading import constant, static_shape

FIRST_OPSET = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """One spatial axis.

    Attributes:
        stride: s.
        begin: p.
        kernel: K.
        dilation: Distance of neighbouring weights.
        taps: t_min and t_max.
        input_size: Samples of x.
        output_size: Samples of y.
        coarse_size: Samples of the Conv's output, ceil(output_size / s).
    """

    stride: int
    begin: int
    kernel: int
    dilation: int
    taps: tuple[int, int]
    input_size: int
    output_size: int
    coarse_size: int

    def kernel_index(self, phase: int, tap: int) -> int | None:
        """k for a phase r and the tap at position `tap` of the Conv's kernel; None where the kernel has no weight."""
        index, rest = divmod(phase + self.begin - self.stride * (self.taps[0] + tap), self.dilation)
        return index if not rest and 0 <= index < self.kernel else None

    @property
    def pads(self) -> tuple[int, int]:
        """Begin and end pads of the Conv; the end pad makes it give coarse_size samples."""
        first, last = self.taps
        return -first, self.coarse_size - 1 + last - (self.input_size - 1)


def conv_transpose_to_conv(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted ConvTranspose that can be."""
    return change_each(model, "ConvTranspose", _replace, choice.is_wanted)


def _replace(graph: gs.Graph, node: gs.Node, names: TensorNames) -> str:
    """Returns the reason when it was left alone."""
    if graph.opset < FIRST_OPSET:
        return f"DepthToSpace has its order and Slice its inputs from opset {FIRST_OPSET} on, the net has {graph.opset}"
    weight = constant(node.inputs[1])
    if weight is None:
        return "its weights are computed"
    axes = _axes(node, weight.shape[2:])
    if isinstance(axes, str):
        return axes
    groups = int(node.attrs.get("group", 1))
    phases = prod(a.stride for a in axes)
    channels = weight.shape[1] * groups
    stem = node.outputs[0].name
    inputs = [node.inputs[0], names.constant(f"{node.inputs[1].name}_phases", _phase_weights(weight, axes, groups))]
    if len(node.inputs) > 2 and node.inputs[2].name:
        bias = constant(node.inputs[2])
        if bias is None:
            return "its bias is computed"
        inputs.append(names.constant(f"{node.inputs[2].name}_phases", np.repeat(bias, phases)))
    coarse = [a.coarse_size for a in axes]
    batch = static_shape(node.inputs[0])[0]  # type: ignore[index]
    result = node.outputs[0]
    fine_is_whole = all(a.coarse_size * a.stride == a.output_size for a in axes)
    maps = names.variable(f"{stem}_phases", result, [batch, channels * phases, *coarse]) if phases > 1 else result
    pads = [a.pads for a in axes]
    graph.nodes.append(
        gs.Node(
            op="Conv",
            name=node.name,
            attrs={
                "kernel_shape": [a.taps[1] - a.taps[0] + 1 for a in axes],
                "strides": [1] * len(axes),
                "dilations": [1] * len(axes),
                "group": groups,
                "pads": [b for b, _ in pads] + [e for _, e in pads],
            },
            inputs=inputs,
            outputs=[maps],
        )
    )
    node.outputs.clear()
    node.inputs.clear()
    if phases > 1:
        fine_shape = [batch, channels, *(a.coarse_size * a.stride for a in axes)]
        fine = result if fine_is_whole else names.variable(f"{stem}_uncut", result, fine_shape)
        _interleave(graph, maps, fine, axes, channels, fine_shape, names)
        if not fine_is_whole:
            _cut(graph, fine, result, axes, names)
    return ""


def _axes(node: gs.Node, kernel: tuple[int, ...]) -> list[_Axis] | str:
    data, result = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if data is None or result is None:
        return "its sizes are not known"
    if node.attrs.get("output_shape"):
        return "it asks for an output_shape"
    if node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return f"it pads by auto_pad {node.attrs['auto_pad']}"
    count = len(kernel)
    strides = node.attrs.get("strides") or [1] * count
    pads = node.attrs.get("pads") or [0] * 2 * count
    if node.attrs.get("auto_pad") == "VALID":
        pads = [0] * 2 * count
    dilations = node.attrs.get("dilations") or [1] * count
    axes = []
    for i in range(count):
        stride, begin, reach = int(strides[i]), int(pads[i]), (kernel[i] - 1) * int(dilations[i])
        # kernel index r + p - s t within 0..reach for some phase r in 0..s-1
        taps = -((reach - begin) // stride), (stride - 1 + begin) // stride
        size = result[2 + i]
        axis = _Axis(
            stride=stride,
            begin=begin,
            kernel=kernel[i],
            dilation=int(dilations[i]),
            taps=taps,
            input_size=data[2 + i],
            output_size=size,
            coarse_size=-(-size // stride),
        )
        if min(axis.pads) < 0:
            return "its pads are larger than its kernel reaches"
        axes.append(axis)
    return axes


def _phase_weights(weight: npt.NDArray[np.generic], axes: list[_Axis], groups: int) -> npt.NDArray[np.generic]:
    """(Ci, Co / g, K...) to (Co * phases, Ci / g, T...); phases run fastest, the first spatial axis slowest of them."""
    grouped = weight.reshape(groups, -1, *weight.shape[1:])  # (g, Ci / g, Co / g, K...)
    per_group_in, per_group_out = grouped.shape[1:3]
    strides = [a.stride for a in axes]
    tap_counts = [a.taps[1] - a.taps[0] + 1 for a in axes]
    phases = np.zeros((groups, per_group_out, *strides, per_group_in, *tap_counts), weight.dtype)
    for phase in product(*map(range, strides)):
        for tap in product(*map(range, tap_counts)):
            index = [a.kernel_index(r, t) for a, r, t in zip(axes, phase, tap, strict=True)]
            known = [i for i in index if i is not None]
            if len(known) == len(index):
                source: Any = (slice(None), slice(None), slice(None), *known)
                target: Any = (slice(None), slice(None), *phase, slice(None), *tap)
                phases[target] = grouped[source].swapaxes(1, 2)  # (g, Ci / g, Co / g) -> (g, Co / g, Ci / g)
    return phases.reshape(groups * per_group_out * prod(strides), per_group_in, *tap_counts)


def _interleave(
    graph: gs.Graph,
    maps: gs.Tensor,
    fine: gs.Tensor,
    axes: list[_Axis],
    channels: int,
    fine_shape: list[int],
    names: TensorNames,
) -> None:
    """(N, C * phases, Q...) to (N, C, Q s...)."""
    strides = [a.stride for a in axes]
    if len(axes) == 2 and strides[0] == strides[1]:
        attrs = {"blocksize": strides[0], "mode": "CRD"}
        graph.nodes.append(
            gs.Node(
                op="DepthToSpace",
                name=names.unused(f"{fine.name}_DepthToSpace"),
                attrs=attrs,
                inputs=[maps],
                outputs=[fine],
            )
        )
        return
    count = len(axes)
    split_shape = [fine_shape[0], channels, *strides, *(a.coarse_size for a in axes)]
    order = [0, 1]
    for i in range(count):
        order += [2 + count + i, 2 + i]
    split = names.variable(f"{maps.name}_split", maps, split_shape)
    turned = names.variable(f"{maps.name}_turned", maps, [split_shape[i] for i in order])
    targets = [
        names.constant(f"{t.name}_shape", np.array(s, np.int64)) for t, s in ((split, split_shape), (fine, fine_shape))
    ]
    graph.nodes += [
        gs.Node(op="Reshape", name=split.name, inputs=[maps, targets[0]], outputs=[split]),
        gs.Node(op="Transpose", name=turned.name, attrs={"perm": order}, inputs=[split], outputs=[turned]),
        gs.Node(op="Reshape", name=names.unused(f"{fine.name}_Reshape"), inputs=[turned, targets[1]], outputs=[fine]),
    ]


def _cut(graph: gs.Graph, fine: gs.Tensor, result: gs.Tensor, axes: list[_Axis], names: TensorNames) -> None:
    """Drop what lies beyond the end."""
    ends = np.array([a.output_size for a in axes], np.int64)
    starts = np.zeros(len(axes), np.int64)
    which = np.arange(2, 2 + len(axes), dtype=np.int64)
    bounds = [names.constant(f"{result.name}_{k}", v) for k, v in (("starts", starts), ("ends", ends), ("axes", which))]
    graph.nodes.append(
        gs.Node(op="Slice", name=names.unused(f"{result.name}_Slice"), inputs=[fine, *bounds], outputs=[result])
    )
