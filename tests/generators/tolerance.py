"""How far the outputs of a rewritten graph may lie from the original's: a bound measured on each case.

A rewrite may change the order and the grouping of float operations, and nothing else. To first order that is a relative
change of a few eps in what each *rounding* operator gives, taken of the tensor's largest magnitude (sums cancel, so an
element's own magnitude would be too small). So the graph is run again with such changes made on purpose: behind every
rounding operator (those not in `EXACT_OPS`) uniform noise of +-NOISE_EPS eps(dtype) * max|t| is added, in RUNS
independent draws. With d the largest deviation seen in an output, over all its elements and draws,

    tolerance = SAFETY * d + FLOOR_EPS * eps * max|output|

Amplification by a norm over nearly equal numbers, a steep function or a long chain is thereby in the bound, where it
exists and only there. Integer and boolean outputs have tolerance 0: the generator computes them by exact operators.

NOISE_EPS = 4: one re-rounded operator is off by eps / 2; a sum of n terms taken in another order by up to n eps / 2 of
the sum of magnitudes and by about sqrt(n) eps / 2 in practice; n <= 100 here. SAFETY = 8 covers that an output deviates
by the sum of about ten such causes with random signs, of which RUNS draws show a typical and not the largest value.

Source: stochastic arithmetic, J. Vignes, "A stochastic arithmetic for reliable scientific computation", Math. and
Computers in Simulation 35 (1993); D. S. Parker, "Monte Carlo arithmetic", UCLA CSD-970002 (1997).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from tests.generators.exact_ops import EXACT_OPS
from tests.generators.random_graphs import Case
from tests.generators.run_plain import run_plain

NOISE_EPS = 4.0
SAFETY = 8.0
FLOOR_EPS = 4.0
RUNS = 2
Array = npt.NDArray[Any]


def tolerance(case: Case, reference: Sequence[Array]) -> tuple[float, ...]:
    """Largest |y - reference| that a rewrite may cause, for each graph output in order; 0 where values are integers.

    Args:
        case: The case.
        reference: Its outputs, as `run_plain` gives them.
    """
    intermediate = _intermediate(case)
    deviation = [0.0] * len(reference)
    for draw in range(RUNS):
        noisy = run_plain(_noisy(case.model, intermediate, draw), case.feeds)
        for i, (y, r) in enumerate(zip(noisy, reference, strict=True)):
            if r.dtype.kind == "f" and r.size:
                deviation[i] = max(deviation[i], float(np.abs(y.astype(np.float64) - r.astype(np.float64)).max()))
    return tuple(
        SAFETY * d + FLOOR_EPS * float(np.finfo(r.dtype).eps) * float(np.abs(r).max())
        if r.dtype.kind == "f" and r.size
        else 0.0
        for d, r in zip(deviation, reference, strict=True)
    )


def _rounding_outputs(model: ModelProto) -> list[str]:
    """Outputs of nodes that round something which depends on the feeds' values.

    Arithmetic on constants and on shapes alone is left as it is: its results may be sizes, which noise would move over
    a step, and a pass computes them by the same operators.
    """
    fixed = {t.name for t in model.graph.initializer} | {""}
    rounding = []
    for node in model.graph.node:
        has_subgraph = any(a.HasField("g") for a in node.attribute)  # it may read more than its inputs
        is_fixed = node.op_type in ("Shape", "Size") or (not has_subgraph and all(name in fixed for name in node.input))
        if is_fixed:
            fixed.update(node.output)
        elif node.op_type not in EXACT_OPS:
            rounding.extend(name for name in node.output if name)
    return rounding


def _intermediate(case: Case) -> Mapping[str, Array]:
    """Values of all outputs of rounding nodes."""
    names = _rounding_outputs(case.model)
    probe = ModelProto()
    probe.CopyFrom(case.model)
    del probe.graph.output[:]
    probe.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names)
    return dict(zip(names, run_plain(probe, case.feeds), strict=True)) if names else {}


def _noisy(model: ModelProto, values: Mapping[str, Array], draw: int) -> ModelProto:
    """The graph with noise behind each rounding node; the noise tensors are initializers."""
    rng = np.random.default_rng([7, draw])
    noisy = ModelProto()
    noisy.CopyFrom(model)
    nodes: list[NodeProto] = []
    extra: list[TensorProto] = []
    for node in noisy.graph.node:
        nodes.append(node)
        for i, name in enumerate(node.output):
            value = values.get(name)
            if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
                continue
            amplitude = NOISE_EPS * float(np.finfo(value.dtype).eps) * float(np.abs(value).max())
            noise = rng.uniform(-amplitude, amplitude, value.shape).astype(value.dtype)
            extra.append(numpy_helper.from_array(noise, f"{name}::noise"))
            node.output[i] = f"{name}::clean"
            nodes.append(helper.make_node("Add", [f"{name}::clean", f"{name}::noise"], [name]))
    copies = [NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del noisy.graph.node[:]
    noisy.graph.node.extend(copies)
    noisy.graph.initializer.extend(extra)
    noisy.ir_version = max(noisy.ir_version, 4)  # initializers need not be inputs
    return noisy
