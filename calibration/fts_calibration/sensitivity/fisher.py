"""A unit's own error carried to the outputs by the net's gradient: all units from a few backward passes a sample.

The error d at a unit's output moves an output y by about J d, with J = ∂y/∂unit. Of that the metric wants ‖J d‖². For a
random v with independent normal components vᵀJ d is normal with variance ‖J d‖², and vᵀJ is the gradient of vᵀy, which one
backward pass gives for every unit at once:

    ‖J d‖² ≈ mean over probes v of (∂(vᵀy)/∂unit · d)²        relative deviation √(2 / probes)

d is the unit's actual error, of its encoded form on FP32 inputs (`unit_errors.py`). JᵀJ is the Fisher information of y with
normal noise. Exact for small errors; what is cut off or saturates behind the unit is not seen. PSNR and SQNR follow from
‖J d‖²; other metrics do not. Needs torch and a net that the twin knows.

Source: Hutchinson 1989, Commun. Stat. Simul. 18(3), for the probes; Dong et al. 2020 (HAWQ-V2), arXiv:1911.03852, for
curvature times squared error.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fts.errors import CalibrationError, MissingDependencyError, UnsupportedOpError
from fts_calibration.metrics.budget import Budget, Score
from fts_calibration.metrics.psnr import CEILING_DB
from fts_calibration.sensitivity.exhaustive import Measurement
from fts_calibration.sensitivity.kept_tensors import SAMPLE_LIMIT_BYTES
from fts_calibration.sensitivity.table import SensitivityTable, table_from_scores
from fts_calibration.sensitivity.unit_errors import UnitErrors

METHOD = "fisher"
PROBES = 8
METRICS = frozenset({"psnr", "sqnr"})
# Of a forward pass: a gradient by a layer's input takes as many multiply-accumulates as the layer, and none by weights is
# asked for.
BACKWARD = 1.0


class NotEstimableError(CalibrationError):
    """The method does not apply to this net, budget or environment; the message says why."""


def estimate_by_fisher(given: Measurement, *, probes: int = PROBES, seed: int = 0) -> SensitivityTable:
    """Scores that each unit alone in INT8 should leave.

    Args:
        given: Net, units and samples; budgets on PSNR or SQNR.
        probes: Backward passes an output and sample.
        seed: Of the probes.

    Raises:
        NotEstimableError: torch is missing, the twin lacks an operator, the metric is another, or it takes more memory
            than such a method should.
    """
    twin, torch = _twin(given)
    errors = UnitErrors(given)
    names = tuple(given.budgets)
    watched = tuple(dict.fromkeys(name for unit in given.units for name in errors.tensors(unit.name)))
    ends = [errors.outputs[unit.name] for unit in given.units]
    # unit -> output -> one ‖J d‖² a sample
    powers: dict[str, dict[str, list[float]]] = {u.name: {n: [] for n in names} for u in given.units}
    references = []
    for sample, (feed, reference) in enumerate(zip(given.feeds(), given.references, strict=True)):
        references.append({name: reference[name] for name in names})
        tensors = {name: torch.from_numpy(np.array(feed[name])) for name in twin.input_names}
        for tensor in tensors.values():
            tensor.requires_grad_(tensor.is_floating_point())
        values = twin(tensors, watch=watched)
        arrays = {name: values[name].detach().numpy() for name in watched}
        deltas = [torch.from_numpy(errors.of(u.name, arrays)) for u in given.units]
        for name in names:
            draws = _probes(values[name], probes, torch, seed, sample)
            found = _powers([values[end] for end in ends], values[name], draws, deltas, torch)
            for unit, power in zip(given.units, found, strict=True):
                powers[unit.name][name].append(power)
        del values
    scores = {
        unit: tuple(_score(n, given.budgets[n], by_output[n], references, given) for n in names)
        for unit, by_output in powers.items()
    }
    share_of_units = sum(given.net.macs.get(u.name, 0) for u in given.units) / given.net.total_macs
    passes = len(references) * (1 + share_of_units + BACKWARD * probes * len(names))
    return table_from_scores(METHOD, scores, samples=len(references), forward_passes=passes)


def _twin(given: Measurement) -> tuple[Any, Any]:
    """The net with gradients, and torch."""
    others = sorted({b.metric for b in given.budgets.values()} - METRICS)
    if others:
        raise NotEstimableError(f"{others[0]} does not follow from a squared error, as PSNR and SQNR do")
    net = given.net
    size_bytes = sum(net.size_bytes(name) for name in net.producer if name in net.types)
    if size_bytes > 4 * SAMPLE_LIMIT_BYTES:
        raise NotEstimableError(f"a backward pass keeps all tensors of the net, here {size_bytes / 2**20:.0f} MiB")
    try:
        import torch

        from fts_calibration.train.twin import Twin

        twin = Twin(net.model, given.weights)
    except (MissingDependencyError, ImportError) as cause:
        raise NotEstimableError("gradients need the extra `torch`: pip install 'fts-edge[convert,torch]'") from cause
    except UnsupportedOpError as cause:
        raise NotEstimableError(str(cause)) from cause
    twin.requires_grad_(False)
    return twin, torch


def _probes(output: Any, probes: int, torch: Any, seed: int, sample: int) -> list[Any]:
    generator = torch.Generator().manual_seed(1_000_003 * seed + sample)
    return [torch.randn(output.shape, generator=generator) for _ in range(probes)]


def _powers(tensors: list[Any], output: Any, draws: list[Any], deltas: list[Any], torch: Any) -> list[float]:
    """‖J d‖² of each unit for one output."""
    live = [p for p, t in enumerate(tensors) if t.requires_grad]
    sums = [0.0] * len(tensors)
    if not output.requires_grad:
        return sums
    for draw in draws:
        gradients = torch.autograd.grad(
            output, [tensors[p] for p in live], grad_outputs=draw, retain_graph=True, allow_unused=True
        )
        for place, gradient in zip(live, gradients, strict=True):
            if gradient is not None:
                sums[place] += float((gradient.double() * deltas[place]).sum()) ** 2
    return [s / len(draws) for s in sums]


def _score(
    name: str,
    budget: Budget,
    powers: list[float],
    references: list[dict[str, npt.NDArray[np.generic]]],
    given: Measurement,
) -> Score:
    peak = given.references.peaks[name]
    values = []
    for power, reference in zip(powers, references, strict=True):
        output = reference[name].astype(np.float64)
        signal = math.sqrt(float(np.mean(output**2))) if output.size else 0.0
        top = peak if budget.metric == "psnr" else signal or peak
        rms = math.sqrt(power / max(output.size, 1))
        decibels = CEILING_DB if rms == 0.0 else 20.0 * math.log10((top or 1.0) / rms)
        values.append(min(max(decibels, -CEILING_DB), CEILING_DB))
    return Score(output=name, budget=budget, values=tuple(values))
