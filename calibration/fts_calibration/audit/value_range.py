"""Raw tensors against the contract that is declared of them: the range of their values, and the order of their axes.

Pictures cannot miss it: their tensors are made by the contract. A tensor misses it when its values lie outside of what the
contract can give, or when all of the set fill so little of it that another common contract explains them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fts.vocabulary.preprocessing import Preprocessing
from fts_calibration.audit.finding import Finding, names_text
from fts_calibration.audit.look import Look

SLACK = 0.05  # of the range: resampling with cubic kernels overshoots by about this much
NARROW, FILLED = 0.55, 0.6  # share of the declared range left empty, share of the other range that is filled
LEAST_SAMPLES = 4  # of fewer, all may be dull by chance
# Values that are 3 apart in memory are more alike than neighbours: 2.7 and more when channels are last, 0.47 else, 1 for noise.
INTERLEAVED = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonRange:
    """A range in which people keep pictures, and what to declare for it."""

    name: str
    low: float
    high: float
    flags: str


COMMON_RANGES = (
    CommonRange(name="0..1", low=0, high=1, flags="--scale 1/255"),
    CommonRange(name="-1..1", low=-1, high=1, flags="--scale 1/127.5 --mean=1,1,1"),
    CommonRange(
        name="ImageNet mean and std",
        low=-2.118,
        high=2.640,
        flags="--scale 1/255 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225",
    ),
    CommonRange(name="0..255", low=0, high=255, flags="--scale 1"),
    CommonRange(name="0..65535 (16-bit)", low=0, high=65535, flags="--scale 257"),
)


def samples_out_of_range(looks: Sequence[Look]) -> tuple[Look, ...]:
    """Tensors with more than one value in a hundred outside of what the contract can give."""
    slack = SLACK * 255
    return tuple(
        look
        for look in looks
        if not look.is_picture and (look.percentiles[0] < -slack or look.percentiles[1] > 255 + slack)
    )


def check_value_range(looks: Sequence[Look], pre: Preprocessing) -> Iterator[Finding]:
    """Finding value-range."""
    low, high = declared_range(pre)
    declared = f"the declared contract gives {low:.4g}..{high:.4g}"
    outside = samples_out_of_range(looks)
    if outside:
        seen = _seen(outside)
        found = f"{len(outside)} of {len(looks)} samples hold values {seen[0]:.4g}..{seen[1]:.4g}, {declared}"
        yield _finding(f"{found} ({names_text([look.path for look in outside])})", explanation(seen, pre))
    elif (other := _range_instead(looks, pre)) is not None:
        seen = _seen(looks)
        yield _finding(f"all samples hold values {seen[0]:.4g}..{seen[1]:.4g}, {declared}", other)


def is_too_narrow(looks: Sequence[Look], pre: Preprocessing) -> bool:
    """True when the set as a whole fits another contract."""
    return _range_instead(looks, pre) is not None


def declared_range(pre: Preprocessing) -> tuple[float, float]:
    """Smallest and largest value that pixels 0..255 give."""
    ends = [(p * pre.scale - m) / s for m, s in zip(pre.mean, pre.std, strict=True) for p in (0.0, 255.0)]
    return min(ends), max(ends)


def explanation(seen: tuple[float, float], pre: Preprocessing) -> CommonRange | None:
    """The narrowest common range that holds values from `seen[0]` to `seen[1]` and is filled by them."""
    candidates = [*COMMON_RANGES, _normalised_twice(pre)]
    declared = declared_range(pre)
    fitting = [
        r
        for r in candidates
        if (r.low, r.high) != declared
        and seen[0] >= r.low - SLACK * (r.high - r.low)
        and seen[1] <= r.high + SLACK * (r.high - r.low)
        and seen[1] - seen[0] >= FILLED * (r.high - r.low)
    ]
    return min(fitting, key=lambda r: r.high - r.low, default=None)


def _normalised_twice(pre: Preprocessing) -> CommonRange:
    """(x - mean) / std of what already went through the contract."""
    ends = [((p * pre.scale - m) / s - m) / s for m, s in zip(pre.mean, pre.std, strict=True) for p in (0.0, 255.0)]
    return CommonRange(name="the declared contract applied twice", low=min(ends), high=max(ends), flags="")


def _range_instead(looks: Sequence[Look], pre: Preprocessing) -> CommonRange | None:
    if len(looks) < LEAST_SAMPLES or any(look.is_picture for look in looks):
        return None
    span = max(look.percentiles[1] for look in looks) - min(look.percentiles[0] for look in looks)
    return explanation(_seen(looks), pre) if span < NARROW * 255 else None


def _seen(looks: Sequence[Look]) -> tuple[float, float]:
    return min(look.values[0] for look in looks), max(look.values[1] for look in looks)


def _finding(message: str, other: CommonRange | None) -> Finding:
    fix = "Make the tensors as the contract says, or declare what they are."
    if other is not None and other.flags:
        message += f"; they look like {other.name}"
        fix = f"Make the tensors as the contract says, or declare what they are ({other.flags})."
    elif other is not None:
        message += f"; they look like {other.name}"
        fix = "Normalise once."
    return Finding(id="value-range", severity="warning", message=message, fix=fix)


def samples_interleaved(looks: Sequence[Look]) -> tuple[Look, ...]:
    """Tensors declared (1, 3, H, W) whose memory is (1, H, W, 3); grey ones cannot be told."""
    return tuple(look for look in looks if look.interleaved > INTERLEAVED)


def check_channel_layout(looks: Sequence[Look]) -> Iterator[Finding]:
    """Finding channel-layout."""
    affected = samples_interleaved(looks)
    if affected:
        yield Finding(
            id="channel-layout",
            severity="warning",
            message=(
                f"{len(affected)} of {len(looks)} samples are declared channels first, but values 3 apart in memory are "
                f"the alike ones, as in channels last ({names_text([look.path for look in affected])})"
            ),
            fix="Write x.transpose(0, 3, 1, 2) where x.reshape(1, 3, H, W) stands.",
        )
