"""Train weight roundings and biases so that the quantized net gives what the float net gives, without labels.

Latent weights in grid steps start on the integers they have; a rounding flips once the gradients have agreed long enough to
carry it half a step. Every activation that will be an integer is rounded to its grid on the way, with gradients passing
through (straight-through). The loss is the mean, over the net's outputs and a few tensors in between (the ends of blocks),
of the squared difference over the variance of the float net's.

Does *not* train scales, nor ranges of activations.

Source: label-free reconstruction of blocks with rounded inputs: BRECQ, Li et al. 2021, arXiv:2102.05426, eq. (10), here with
all blocks at once. Roundings as trained variables: AdaRound, arXiv:2004.10568.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fts.vocabulary.quantization import QuantParams
from fts_calibration.train.fake_quantize import FakeQuantize, round_through
from fts_calibration.train.twin import Alter, Twin

FloatArray = npt.NDArray[np.float32]
Feed = Mapping[str, npt.NDArray[np.generic]]

# Adam's step is about its rate: a rounding needs 25 steps that agree to flip.
WEIGHT_RATE_STEPS = 0.02
# Of a bias, as a share of its output's deviation.
BIAS_RATE = 1e-3
MOST_STEPS = 600
# Of samples in memory at once as torch tensors.
MOST_SAMPLES = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainedWeight:
    """One weight tensor.

    Attributes:
        tensor: Its name.
        values: On the grid: whole numbers times `scale`.
        scale: float32, of a shape that broadcasts against `values`.
        qmax: Greatest integer; the least is its negative.
    """

    tensor: str
    values: FloatArray
    scale: FloatArray
    qmax: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainedBias:
    """What is added to the output of a weighted operator, on top of the float net's bias.

    Attributes:
        tensor: The operator's output.
        values: float32 (C,).
        axis: Axis of C.
    """

    tensor: str
    values: FloatArray
    axis: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trained:
    """The result, in the order of what was given; and how many steps there was time for."""

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    steps: int


def train_roundings(
    twin: Twin,
    weights: Sequence[TrainedWeight],
    biases: Sequence[TrainedBias],
    grids: Mapping[str, tuple[QuantParams, int]],
    block_ends: Sequence[str],
    feeds: Iterable[Feed],
    *,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Trained:
    """Train as described at the top of this file.

    Args:
        twin: Of the float net; not changed.
        weights: What to train.
        biases: Likewise.
        grids: Tensor name to its grid and its number of axes, for all activations that will be integers.
        block_ends: Tensors to match beside the outputs.
        feeds: The calibrate split.
        seconds: Time allowed; with time for all MOST_STEPS steps the result is the same each time.
        clock: In seconds.
    """
    twin.requires_grad_(False)
    samples = [{n: torch.from_numpy(np.array(v)) for n, v in f.items()} for f in islice(feeds, MOST_SAMPLES)]
    with torch.no_grad():
        wanted = [_floats(twin(sample, watch=block_ends)) for sample in samples]
    latent = [torch.from_numpy(np.rint(w.values / w.scale)).requires_grad_() for w in weights]
    added = [torch.from_numpy(b.values.copy()).requires_grad_() for b in biases]
    alter = _alterations(weights, biases, latent, added, grids)
    spread = {name: _variance([w[name] for w in wanted]) for name in wanted[0]}
    optimizer = torch.optim.Adam(
        [
            {"params": latent, "lr": WEIGHT_RATE_STEPS},
            *(
                {"params": [a], "lr": rate}
                for a, rate in zip(added, _bias_rates(twin, biases, samples[0]), strict=True)
            ),
        ]
    )
    rates = [group["lr"] for group in optimizer.param_groups]
    begin, steps, done = clock(), MOST_STEPS, 0
    while done < steps:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * 0.5 * (1 + np.cos(np.pi * done / steps))
        number = done % len(samples)
        optimizer.zero_grad()
        given = _floats(twin(samples[number], watch=block_ends, alter=alter))
        terms = [torch.mean((given[n] - wanted[number][n]) ** 2) / spread[n] for n in given]
        torch.stack(terms).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        done += 1
        # The rate falls to 0 with the last step there is time for.
        steps = max(done, min(MOST_STEPS, int(seconds / max((clock() - begin) / done, 1e-9))))
    rounded = [_integers(z, w) for z, w in zip(latent, weights, strict=True)]
    return Trained(
        weights=tuple((q.detach().numpy() * w.scale).astype(np.float32) for q, w in zip(rounded, weights, strict=True)),
        biases=tuple(a.detach().numpy().copy() for a in added),
        steps=done,
    )


def _alterations(
    weights: Sequence[TrainedWeight],
    biases: Sequence[TrainedBias],
    latent: Sequence[Tensor],
    added: Sequence[Tensor],
    grids: Mapping[str, tuple[QuantParams, int]],
) -> dict[str, Alter]:
    """What stands in the place of weights, outputs and rounded activations. A bias comes before the rounding."""
    alter: dict[str, Alter] = {name: FakeQuantize(grid, rank) for name, (grid, rank) in grids.items()}
    for weight, z in zip(weights, latent, strict=True):
        alter[weight.tensor] = partial(_weight, weight, torch.from_numpy(weight.scale.copy()), z)
    for bias, a in zip(biases, added, strict=True):
        alter[bias.tensor] = partial(_biased, bias.axis, a, alter.get(bias.tensor))
    return alter


def _weight(weight: TrainedWeight, scale: Tensor, latent: Tensor, _own: Tensor) -> Tensor:
    return _integers(latent, weight) * scale


def _integers(latent: Tensor, weight: TrainedWeight) -> Tensor:
    return torch.clamp(round_through(latent), -weight.qmax, weight.qmax)


def _biased(axis: int, added: Tensor, then: Alter | None, values: Tensor) -> Tensor:
    shape = [1] * values.dim()
    shape[axis] = -1
    moved = values + added.reshape(shape)
    return moved if then is None else then(moved)


def _bias_rates(twin: Twin, biases: Sequence[TrainedBias], sample: Mapping[str, Tensor]) -> list[float]:
    with torch.no_grad():
        outputs = twin(sample, watch=[b.tensor for b in biases])
    return [BIAS_RATE * max(float(outputs[b.tensor].std()), float(np.finfo(np.float32).tiny)) for b in biases]


def _floats(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: t for name, t in tensors.items() if t.is_floating_point()}


def _variance(tensors: Sequence[Tensor]) -> float:
    together = torch.cat([t.reshape(-1) for t in tensors])
    return max(float(together.var(correction=0)), float(np.finfo(np.float32).tiny))
