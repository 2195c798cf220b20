"""The bars of fidelity for one net, and whether fts holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rivals.interleave import Ratio
from rivals.row import LEAST_PEER_SHARE, Row, best
from rivals.score import Fidelity

LEAST_SHARE = 0.85
MOST_LATENCY_RATIO = 1.05
# Figures are compared at the precision in which the table shows them.
DB_DECIMALS, YEARS_DECIMALS = 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Absolute:
    """A bar of its own for one net: `figure` of at least (dB) or at most (years) `value`, with at least `share` integer."""

    figure: str
    value: float
    share: float = LEAST_SHARE
    is_floor: bool = False


ABSOLUTE: Mapping[str, tuple[Absolute, ...]] = {
    "cyclegan_vintage": (
        Absolute(figure="min_db", value=34.0, share=0.9, is_floor=True),
        Absolute(figure="min_db", value=38.0, share=0.9),
    ),
    "style_multi26": (Absolute(figure="mean_db", value=32.0),),
    "centerface": (Absolute(figure="mean_db", value=52.0),),
    "age_81": (Absolute(figure="mean_years", value=0.5),),
    "srvgg_x4": (Absolute(figure="min_db", value=41.0),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One bar.

    Attributes:
        bar: What is wanted.
        is_floor: A floor must hold; an aim may miss.
        met: None when there was nothing to compare with, so that nothing is claimed.
        text: The figures.
    """

    bar: str
    is_floor: bool
    met: bool | None
    text: str

    def __str__(self) -> str:
        """One line."""
        answer = {True: "met", False: "NOT MET", None: "not judged"}[self.met]
        return f"{'floor' if self.is_floor else 'aim'}: {self.bar}: {answer}: {self.text}"

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self)


def verdicts(
    net: str, ours: Row | None, rivals: Sequence[Row], latency: Mapping[int, Mapping[str, Ratio]]
) -> list[Verdict]:
    """Judge.

    Args:
        net: Name, with "/..." for a variant.
        ours: Row of fts, None when it was not run.
        rivals: Rows of all rivals, each as it serves its tool best.
        latency: Threads to a row's name to its time over that of FP32, and in "fts / NAME" ours over a rival's.
    """
    if ours is None or ours.fidelity is None or ours.share is None:
        why = "fts was not run" if ours is None else ours.error
        return [Verdict(bar="one bundle", is_floor=True, met=None if ours is None else False, text=why)]
    share = ours.share.share
    peers = [r for r in rivals if r.is_peer]
    found = [
        _against(f"the best peer with >= {LEAST_PEER_SHARE:.0%} integer", ours, best(peers), is_floor=True),
        _against("the best peer of any kind", ours, best(rivals), is_floor=False),
        Verdict(bar=f">= {LEAST_SHARE:.0%} integer", is_floor=True, met=share >= LEAST_SHARE, text=f"{share:.1%}"),
    ]
    found += [_absolute(bar, ours.fidelity, share) for bar in ABSOLUTE.get(net.partition("/")[0], ())]
    found += [_latency(threads, ratios, peers) for threads, ratios in sorted(latency.items())]
    return found


def figure_text(row: Row) -> str:
    """What a row is judged by."""
    if row.fidelity is None:
        return row.error
    years = row.fidelity.mean_years
    return f"{row.fidelity.min_db:.{DB_DECIMALS}f} dB" if years is None else f"{years:.{YEARS_DECIMALS}f} years"


def _against(what: str, ours: Row, peer: Row | None, *, is_floor: bool) -> Verdict:
    bar = f"at least {what}"
    if peer is None:
        return Verdict(bar=bar, is_floor=is_floor, met=None, text="no rival gave one")
    in_years = ours.fidelity is not None and ours.fidelity.mean_years is not None
    decimals = YEARS_DECIMALS if in_years else DB_DECIMALS
    met = round(ours.merit, decimals) >= round(peer.merit, decimals)
    text = f"fts {figure_text(ours)}, {peer.name} {figure_text(peer)}"
    return Verdict(bar=bar, is_floor=is_floor, met=met, text=text)


def _absolute(bar: Absolute, fidelity: Fidelity, share: float) -> Verdict:
    value = float(getattr(fidelity, bar.figure))
    is_better_small = bar.figure == "mean_years"
    holds = value <= bar.value if is_better_small else value >= bar.value
    sign, unit = ("<=", "years") if is_better_small else (">=", "dB")
    kind = "minimum" if bar.figure == "min_db" else "mean"
    return Verdict(
        bar=f"{kind} {sign} {bar.value:g} {unit} at >= {bar.share:.0%} integer",
        is_floor=bar.is_floor,
        met=holds and share >= bar.share,
        text=f"{value:.2f} {unit} at {share:.1%}",
    )


def _latency(threads: int, ratios: Mapping[str, Ratio], peers: Sequence[Row]) -> Verdict:
    bar = f"{threads} threads: time over that of the fastest such peer <= {MOST_LATENCY_RATIO:g}"
    timed = [r.name for r in peers if f"fts / {r.name}" in ratios]
    if not timed:
        return Verdict(bar=bar, is_floor=True, met=None, text="no peer was timed")
    fastest = min(timed, key=lambda name: ratios[name].median)
    ratio = ratios[f"fts / {fastest}"]
    return Verdict(bar=bar, is_floor=True, met=ratio.median <= MOST_LATENCY_RATIO, text=f"{ratio}, {fastest}")
