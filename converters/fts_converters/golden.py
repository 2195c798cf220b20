"""Golden inputs: pictures that look like the set to a net, and show nobody.

Noise with the 1/f amplitude spectrum of natural pictures, with the calibration set's mean, deviation and bounds per
channel. Tensor inputs take the values the app will use (their default or the first sample's).

Source: Field 1987, JOSA A 4(12): amplitude spectra of natural images fall as 1/f.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fts.imaging.preprocess import tensor_from_frame
from fts_converters.contract import InputContract

SAMPLES = 2
SEED = 20261130
# Share of a channel's variance that all channels have in common; colours of natural pictures are strongly correlated.
COMMON = 0.9

Feed = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GoldenSample:
    """One golden input.

    Attributes:
        feed: Tensor of every input.
        frames: The BGR frame that an image input's tensor was made from, where there is one: so that a device can
            check its preprocessing too.
    """

    feed: Feed
    frames: Feed


def synthetic_samples(
    inputs: Sequence[InputContract], moments: Mapping[str, Any], first: Feed
) -> tuple[GoldenSample, ...]:
    """Make SAMPLES samples, the same for the same moments.

    Args:
        inputs: Live inputs.
        moments: Of image inputs, as `InputMoments.to_json` gives them.
        first: First calibration sample; only its tensor inputs are used.
    """
    rng = np.random.default_rng(SEED)
    samples = []
    for sample in range(SAMPLES):
        feed: dict[str, npt.NDArray[np.generic]] = {}
        frames: dict[str, npt.NDArray[np.generic]] = {}
        for contract in inputs:
            name = contract.spec.name
            if name in moments:
                planes = _planes(contract, moments[name], rng)
                frame = _frame(contract, planes)
                if frame is None:
                    feed[name] = _tensor(contract, planes)
                else:
                    frames[name] = frame
                    assert contract.preprocessing is not None
                    feed[name] = tensor_from_frame(frame, contract.spec, contract.preprocessing)[0]
            else:
                rows = contract.values if contract.values is not None else first[name][None]
                feed[name] = np.asarray(rows[sample % len(rows)])
        samples.append(GoldenSample(feed=feed, frames=frames))
    return tuple(samples)


def golden_limits(fp32: Sequence[Feed], engine: Sequence[Feed], outputs: Sequence[str]) -> dict[str, float]:
    """Right-hand side of the golden check per output: 1.5 × rms(engine − fp32) + 1e-4 × range(fp32) (DESIGN: The bundle).

    An output whose shape depends on the data and differs between the two has no limit.
    """
    limits = {}
    for name in outputs:
        if any(a[name].shape != b[name].shape for a, b in zip(fp32, engine, strict=True)):
            continue
        a = np.concatenate([f[name].astype(np.float64).ravel() for f in fp32])
        b = np.concatenate([f[name].astype(np.float64).ravel() for f in engine])
        rms = float(np.sqrt(np.mean((b - a) ** 2))) if a.size else 0.0
        span = float(a.max() - a.min()) if a.size else 0.0
        limits[name] = 1.5 * rms + 1e-4 * span
    return limits


def _planes(contract: InputContract, moments: Mapping[str, Any], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """(C, H, W) in the tensor's own unit."""
    assert contract.preprocessing is not None
    shape = contract.spec.static_shape
    planes_first = contract.preprocessing.layout == "nchw"
    channels, height, width = (shape[1], shape[2], shape[3]) if planes_first else (shape[3], shape[1], shape[2])
    common = _natural_noise(height, width, rng)
    planes = []
    for c in range(channels):
        own = _natural_noise(height, width, rng)
        noise = np.sqrt(COMMON) * common + np.sqrt(1.0 - COMMON) * own
        plane = moments["mean"][c] + moments["std"][c] * noise
        planes.append(np.clip(plane, moments["low"][c], moments["high"][c]))
    return np.stack(planes)


def _frame(contract: InputContract, planes: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8] | None:
    """The BGR frame that preprocessing turns into about these planes; None when the data was not made by it."""
    pre = contract.preprocessing
    assert pre is not None
    if pre.scale == 0.0:
        return None
    mean, std = (np.array(v, np.float64)[:, None, None] for v in (pre.mean, pre.std))
    pixels = (planes * std + mean) / pre.scale
    if pixels.mean() < 0.0 or pixels.mean() > 255.0 or pixels.min() < -255.0 or pixels.max() > 510.0:
        return None  # raw tensors on another scale than the declared one
    whole = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    if pre.color == "gray":
        whole = np.repeat(whole, 3, axis=0)
    ordered = whole[::-1] if pre.color == "rgb" else whole
    return np.ascontiguousarray(np.moveaxis(ordered, 0, -1))


def _tensor(contract: InputContract, planes: npt.NDArray[np.float64]) -> npt.NDArray[np.generic]:
    assert contract.preprocessing is not None
    picture = planes[None] if contract.preprocessing.layout == "nchw" else np.moveaxis(planes, 0, -1)[None]
    dtype = np.dtype(contract.spec.dtype)
    return np.ascontiguousarray(np.rint(picture) if dtype.kind in "iu" else picture).astype(dtype)


def _natural_noise(height: int, width: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Zero mean, unit deviation, amplitude 1/f; (H, W)."""
    white = np.fft.rfft2(rng.standard_normal((height, width)))
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :])
    frequency[0, 0] = np.inf
    field = np.fft.irfft2(white / frequency, s=(height, width))
    deviation = float(field.std())
    return np.asarray((field - field.mean()) / (deviation or 1.0))
