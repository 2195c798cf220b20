"""Golden inputs: pictures that look like the set to a net, and show nobody.

Noise with the 1/f amplitude spectrum of natural pictures, with the calibration set's mean, deviation and bounds per
channel. Tensor inputs take the values the app will use (their default or the first sample's).

Source: Field 1987, JOSA A 4(12): amplitude spectra of natural images fall as 1/f.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fts_converters.contract import InputContract

SAMPLES = 2
SEED = 20261130
# Share of a channel's variance that all channels have in common; colours of natural pictures are strongly correlated.
COMMON = 0.9

Feed = Mapping[str, npt.NDArray[np.generic]]


def synthetic_feeds(inputs: Sequence[InputContract], moments: Mapping[str, Any], first: Feed) -> tuple[Feed, ...]:
    """Make SAMPLES feeds, the same for the same moments.

    Args:
        inputs: Live inputs.
        moments: Of image inputs, as `InputMoments.to_json` gives them.
        first: First calibration sample; only its tensor inputs are used.
    """
    rng = np.random.default_rng(SEED)
    feeds = []
    for sample in range(SAMPLES):
        feed: dict[str, npt.NDArray[np.generic]] = {}
        for contract in inputs:
            name = contract.spec.name
            if name in moments:
                feed[name] = _picture(contract, moments[name], rng)
            else:
                rows = contract.values if contract.values is not None else first[name][None]
                feed[name] = np.asarray(rows[sample % len(rows)])
        feeds.append(feed)
    return tuple(feeds)


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


def _picture(contract: InputContract, moments: Mapping[str, Any], rng: np.random.Generator) -> npt.NDArray[np.generic]:
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
    picture = np.stack(planes)[None]
    if not planes_first:
        picture = np.moveaxis(picture, 1, -1)
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
