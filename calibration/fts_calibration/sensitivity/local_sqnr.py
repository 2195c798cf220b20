"""Noise over signal at each unit's own output: INT8 beside FP32 on the same FP32 inputs.

Takes one pass of the FP32 net and one of its units. What lies behind a unit, which may blow its error up or swallow it,
is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fts.engines.onnxruntime_session import open_session
from fts_calibration.sensitivity.exhaustive import Measurement
from fts_calibration.sensitivity.float_net import part_of
from fts_calibration.sensitivity.kept_tensors import SAMPLE_LIMIT_BYTES
from fts_calibration.sensitivity.table import SensitivityTable
from fts_calibration.sensitivity.unit_errors import UnitErrors

METHOD = "local-sqnr"


def estimate_local_sqnr(given: Measurement, *, limit_bytes: int = SAMPLE_LIMIT_BYTES) -> SensitivityTable:
    """Losses in dB of noise over signal, summed over all samples; the negative of an SQNR.

    Args:
        given: Net, units and samples.
        limit_bytes: Of tensors of one sample in memory at once; more takes more passes.
    """
    errors = UnitErrors(given)
    noise = {unit.name: 0.0 for unit in given.units}
    signal = dict(noise)
    passes = 0
    for group in _groups(given, errors, limit_bytes):
        passes += 1
        for values in _activations(given, [name for unit in group for name in errors.tensors(unit)]):
            for unit in group:
                noise[unit] += float(np.sum(errors.of(unit, values) ** 2))
                signal[unit] += float(np.sum(values[errors.outputs[unit]].astype(np.float64) ** 2))
    losses = {name: _db(noise[name], signal[name]) for name in noise}
    share_of_units = sum(given.net.macs.get(unit.name, 0) for unit in given.units) / given.net.total_macs
    samples = len(given.references)
    return SensitivityTable(
        method=METHOD, samples=samples, forward_passes=samples * (passes + share_of_units), losses=losses
    )


def _db(noise: float, signal: float) -> float:
    if noise == 0.0:
        return -math.inf
    return 10.0 * math.log10(noise / signal) if signal else math.inf


def _groups(given: Measurement, errors: UnitErrors, limit_bytes: int) -> Iterator[Sequence[str]]:
    """Names of units in their order, in parts whose tensors fit."""
    group: list[str] = []
    names: set[str] = set()
    for unit in given.units:
        own = set(errors.tensors(unit.name))
        if group and sum(map(given.net.size_bytes, names | own)) > limit_bytes:
            yield group
            group, names = [], set()
        group, names = [*group, unit.name], names | own
    if group:
        yield group


def _activations(given: Measurement, tensors: Sequence[str]) -> Iterator[Mapping[str, npt.NDArray[np.generic]]]:
    """FP32 tensors, sample by sample."""
    net = given.net
    inside = [net.types[name] for name in dict.fromkeys(tensors) if name not in net.inputs]
    part = part_of(net.model, inside, [net.types[name] for name in net.inputs])
    used = {t.name for t in part.graph.initializer}
    weights = {name: value for name, value in given.weights.items() if name in used}
    session = open_session(part.SerializeToString(), weights=weights, what="the cleaned net")
    for feed in given.feeds():
        values = session.run({name: feed[name] for name in session.input_names})
        yield {**feed, **dict(zip(session.output_names, values, strict=True))}
