"""Does the net agree with the declared contract? Its batch norms remember the data that it was trained on.

A batch norm holds mean and variance of every channel of its input over the training data. The data of this set, fed under
the right contract, gives about the same; fed in another order of channels or another range it does not (Li et al. 2016,
"Revisiting Batch Normalization for Practical Domain Adaptation", arXiv:1603.04779, section 3, where the same distance
tells data sets apart). Each common contract is tried on the same pictures; the declared one should fit as well as any.

Nets without batch norms, and those whose export folded them into the convolutions, remember nothing: `contract-not-checked`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from fts.engines.onnxruntime_session import open_session
from fts.errors import EngineError
from fts.vocabulary.preprocessing import Preprocessing
from fts_calibration.audit.finding import Finding
from fts_calibration.dataset.input_request import Feed

FloatArray = npt.NDArray[np.float32]

# The first batch norms, behind at most so many convolutions: further in, activations are clipped and every contract looks
# alike (a face detector's norms behind 50 convolutions preferred a contract that it does not have, 0.03 to 0.12).
MOST_NORMS, MOST_CONVOLUTIONS = 3, 2
MOST_SAMPLES = 16
# The declared contract is doubted when another one is nearer by this factor and by this much. Measured distances are
# 0.03 to 0.09 under the right contract, 0.13 to 0.20 with red and blue exchanged, 0.35 and more in another range (the net of
# tests/generators/calibration_sets, and two nets for text on photographs).
TIMES_NEARER, NEARER_BY = 1.75, 0.05
_CONVOLUTIONS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
NAMED_RANGES: tuple[tuple[str, float, tuple[float, ...], tuple[float, ...]], ...] = (
    ("0..1", 1 / 255, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    ("-1..1", 1 / 127.5, (1.0, 1.0, 1.0), (1.0, 1.0, 1.0)),
    ("0..255", 1.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    ("ImageNet mean and std", 1 / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchNorm:
    """What a batch norm remembers: mean and variance (C,) of the tensor it takes."""

    tensor: str
    mean: FloatArray
    variance: FloatArray


def check_contract(
    model: onnx.ModelProto, input_name: str, pre: Preprocessing, feeds: Iterable[Feed]
) -> Iterator[Finding]:
    """Finding contract.

    Args:
        model: The net as it came, batch norms in place; not modified.
        input_name: The image input.
        pre: Its declared contract.
        feeds: Samples under that contract; the first MOST_SAMPLES are used.
    """
    taken = next(value.type.tensor_type.elem_type for value in model.graph.input if value.name == input_name)
    if taken not in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE):
        yield _not_checked("the net takes integers, which hold one range alone")
        return
    norms = batch_norms(model)
    if not norms:
        yield _not_checked("the net has no batch norm left to compare the data with")
        return
    try:
        distances = contract_distances(model, norms, input_name, pre, islice(feeds, MOST_SAMPLES))
    except EngineError as error:
        yield _not_checked(f"the net does not run up to its first batch norms alone ({error})")
        return
    declared = distances[""]
    best = min(distances, key=lambda name: distances[name])
    if best and declared > TIMES_NEARER * distances[best] and declared > distances[best] + NEARER_BY:
        yield Finding(
            id="contract",
            severity="warning",
            message=(
                f"input {input_name!r}: what the net's batch norms remember of its training data is nearer to these samples "
                f"as {best} (distance {distances[best]:.3f}) than as declared ({declared:.3f})"
            ),
            fix="Look up how the net's own code prepares pictures; correct --color, --scale, --mean, --std or the data.",
        )


def _not_checked(reason: str) -> Finding:
    return Finding(
        id="contract-not-checked",
        severity="note",
        message=f"whether the net agrees with the declared colours and range was not checked: {reason}",
        fix="Look up how the net's own code prepares pictures.",
    )


def batch_norms(model: onnx.ModelProto) -> tuple[BatchNorm, ...]:
    """The first with constant statistics, in the graph's order, which onnx wants to be one in which it can run."""
    constants = {i.name: i for i in model.graph.initializer}
    found = []
    convolutions: dict[str, int] = {}  # tensor to the most convolutions on a path to it
    for node in model.graph.node:
        before = max((convolutions.get(name, 0) for name in node.input), default=0)
        convolutions.update(dict.fromkeys(node.output, before + (node.op_type in _CONVOLUTIONS)))
        constants.update(
            (node.output[0], a.t) for a in node.attribute if node.op_type == "Constant" and a.name == "value"
        )
        if before > MOST_CONVOLUTIONS:
            continue
        if node.op_type != "BatchNormalization" or len(node.input) < 5:
            continue
        if node.input[3] in constants and node.input[4] in constants:
            mean, variance = (numpy_helper.to_array(constants[n]).astype(np.float32) for n in node.input[3:5])
            found.append(BatchNorm(tensor=node.input[0], mean=mean, variance=variance))
    return tuple(found[:MOST_NORMS])


def contract_distances(
    model: onnx.ModelProto, norms: Sequence[BatchNorm], input_name: str, pre: Preprocessing, feeds: Iterable[Feed]
) -> Mapping[str, float]:
    """Distance of the data from the batch norms' memory, by name of the contract; "" is the declared one."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    del watched.graph.output[:]
    for name in dict.fromkeys(norm.tensor for norm in norms):
        watched.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = open_session(watched.SerializeToString(), what="the net up to its first batch norms")
    contracts = {"": pre, **_other_contracts(pre)}
    moments = {name: [_Moments(len(norm.mean)) for norm in norms] for name in contracts}
    for feed in feeds:  # the outer loop: one sample in memory, however many there are
        for name, other in contracts.items():
            changed = {**feed, input_name: _as_under(other, feed[input_name], pre)}
            seen = dict(zip(session.output_names, session.run(changed), strict=True))
            for norm, moment in zip(norms, moments[name], strict=True):
                moment.add(seen[norm.tensor])
    return {
        name: float(np.mean([m.distance(norm) for m, norm in zip(moments[name], norms, strict=True)]))
        for name in contracts
    }


def _other_contracts(pre: Preprocessing) -> dict[str, Preprocessing]:
    """Common ranges in both orders of the channels, but for the declared contract itself."""
    if pre.channels == 1:
        ranges = {n: replace(pre, scale=s, mean=m[:1], std=d[:1]) for n, s, m, d in NAMED_RANGES if n[0] != "I"}
        return {name: other for name, other in ranges.items() if other != pre}
    own = {"the declared range": pre}
    ranges = {n: replace(pre, scale=s, mean=m, std=d) for n, s, m, d in NAMED_RANGES}
    others: dict[str, Preprocessing] = {}
    for (name, kept), color in product({**own, **ranges}.items(), ("rgb", "bgr")):
        is_swapped = color != pre.color
        # A declared mean belongs to a channel's place; the common ones to red, green and blue.
        if color == "bgr" and name != "the declared range":
            kept = replace(kept, mean=kept.mean[::-1], std=kept.std[::-1])
        other = replace(kept, color="bgr" if color == "bgr" else "rgb")
        if is_swapped or not _is_same(other, pre):
            others[f"{color.upper()}, {name}"] = other
    return others


def _is_same(a: Preprocessing, b: Preprocessing) -> bool:
    def numbers(p: Preprocessing) -> list[float]:
        return [v for m, s in zip(p.mean, p.std, strict=True) for v in (p.scale / s, m / s)]

    return np.allclose(numbers(a), numbers(b), rtol=0.02, atol=1e-3)


def _as_under(other: Preprocessing, tensor: npt.NDArray[np.generic], pre: Preprocessing) -> npt.NDArray[np.generic]:
    """The tensor that `other` would have made of the same picture."""
    if other is pre:
        return tensor
    axis = 1 if pre.layout == "nchw" else 3
    shape = [1, 1, 1, 1]
    shape[axis] = tensor.shape[axis]

    def per_channel(values: Sequence[float]) -> FloatArray:
        return np.asarray(values, np.float32).reshape(shape)

    pixels = (tensor.astype(np.float32) * per_channel(pre.std) + per_channel(pre.mean)) / np.float32(pre.scale)
    if other.color != pre.color:
        pixels = np.flip(pixels, axis)
    real = (pixels * np.float32(other.scale) - per_channel(other.mean)) / per_channel(other.std)
    return np.ascontiguousarray(real.astype(tensor.dtype))


class _Moments:
    """Mean and variance of each channel (axis 1) over all samples."""

    def __init__(self, channels: int) -> None:
        self._sums = np.zeros((3, channels))

    def add(self, tensor: npt.NDArray[np.generic]) -> None:
        flat = np.moveaxis(tensor.astype(np.float64), 1, 0).reshape(tensor.shape[1], -1)
        self._sums += [flat.sum(axis=1), np.square(flat).sum(axis=1), np.full(len(flat), flat.shape[1])]

    def distance(self, norm: BatchNorm) -> float:
        """Mean over channels of log(1 + KL), KL the divergence of the normal distributions, data from memory.

        The logarithm keeps a channel that training never used, of variance near 0, from deciding alone.
        """
        total, squares, count = self._sums
        mean = total / count
        variance = np.maximum(squares / count - mean**2, 1e-12)
        remembered = np.maximum(norm.variance.astype(np.float64), 1e-12)
        ratio = variance / remembered
        divergence = 0.5 * (ratio - 1 - np.log(ratio) + (mean - norm.mean) ** 2 / remembered)
        return float(np.log1p(np.maximum(divergence, 0.0)).mean())
