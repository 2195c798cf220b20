"""Small nets with what a measurement of their units needs, as the search makes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fts.engines.onnxruntime_session import open_session
from fts_calibration.metrics.budget import parse_budget
from fts_calibration.metrics.reference_outputs import ReferenceOutputs
from fts_calibration.sensitivity.exhaustive import Measurement
from fts_calibration.sensitivity.float_net import FloatNet
from fts_calibration.sensitivity.table import UnitTensors
from fts_converters.quantize.encode_qdq import encode_qdq
from fts_converters.quantize.plan_nodes import plan_only
from fts_converters.quantize.units import macs_by_node
from fts_devices.profiles import load_profile

# Two branches whose nodes stand in turn, a unit whose activation comes after a node of the other branch, a norm, a skip,
# a second output that only one branch reaches, and a convolution whose channels become pixels.
BRANCHES = """
net (float[1,3,16,16] x) => (float[1,2,32,32] y, float[1,4,16,16] z)
{
    left = Conv <pads = [1, 1, 1, 1]> (x, w_left)
    right = Conv <pads = [1, 1, 1, 1]> (x, w_right)
    left_on = Relu (left)
    right_on = Relu (right)
    deep = Conv <pads = [1, 1, 1, 1]> (left_on, w_deep)
    z = Conv (right_on, w_z)
    normed = InstanceNormalization (deep, scale, shift)
    joined = Add (normed, right_on)
    wide = Conv <pads = [1, 1, 1, 1]> (joined, w_wide)
    y = DepthToSpace <blocksize = 2, mode = "CRD"> (wide)
}
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """A measurement, with the encoded nets that it stands for and its samples."""

    given: Measurement
    feeds: list[dict[str, np.ndarray]]


def branches_net(bench):
    """The net above with weights, its nodes named after what they make."""
    shapes = {"w_left": (6, 3, 3, 3), "w_right": (6, 3, 3, 3), "w_deep": (6, 6, 3, 3)}
    shapes |= {"w_z": (4, 6, 1, 1), "w_wide": (8, 6, 3, 3)}
    weights = {n: bench.noise(*s, seed=p, scale=0.3) for p, (n, s) in enumerate(shapes.items())}
    weights |= {"scale": np.linspace(0.5, 2, 6, dtype=np.float32), "shift": np.zeros(6, np.float32)}
    net = bench.net(BRANCHES, **weights)
    for node in net.graph.node:
        node.name = node.output[0]
    return net


def branches(bench, *, samples: int = 3, budget: str = "psnr>=30", dialect: str = "any") -> Measured:
    """The net above, calibrated on what it is measured on."""
    net = branches_net(bench)
    feeds = bench.feeds(net, samples)
    trial = bench.trial(net, feeds, dialect=dialect)
    profile = load_profile("cpu-int8")
    form = profile.dialects[dialect]
    units = [u for u in trial.candidates.units.values() if u.role != "passthrough"]

    def encode(name: str):
        plan = plan_only(trial.index, trial.candidates, profile, form, name)
        return encode_qdq(trial.index, trial.candidates, plan, trial.statistics, form).model

    session = open_session(net.SerializeToString(), threads=1)
    given = Measurement(
        net=FloatNet(trial.index.model, macs_by_node(trial.index)),
        weights={},
        units=[UnitTensors(name=u.name, inputs=u.activations, output=u.output) for u in units],
        encode=encode,
        feeds=lambda: iter(feeds),
        references=ReferenceOutputs(session, feeds),
        budgets={o.name: parse_budget(budget) for o in net.graph.output},
    )
    return Measured(given=given, feeds=feeds)
