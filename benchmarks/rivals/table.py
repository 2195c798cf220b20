"""The printed table of one net."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rivals.interleave import Ratio
from rivals.row import Row

HEADER = f"{'tool and method':<48}{'min dB':>8}{'mean dB':>9}{'years':>8}{'integer':>9}{'s':>7}{'MB':>7}"


def table(rows: Sequence[Row], latency: Mapping[int, Mapping[str, Ratio]]) -> str:
    """One line a row, in the order given; failures say why."""
    threads = sorted(latency)
    head = HEADER + "".join(f"{f'/FP32, {t} thr.':>22}" for t in threads) + "  settings"
    return "\n".join([head, *(_line(row, [latency[t].get(row.name) for t in threads]) for row in rows)])


def _line(row: Row, ratios: Sequence[Ratio | None]) -> str:
    settings = ", ".join(f"{k}={v}" for k, v in row.settings.items())
    if row.fidelity is None or row.share is None:
        return f"{row.name:<48}failed: {row.error}  ({settings})"
    years = "" if row.fidelity.mean_years is None else f"{row.fidelity.mean_years:.3f}"
    figures = f"{row.fidelity.min_db:>8.2f}{row.fidelity.mean_db:>9.2f}{years:>8}{row.share.share:>9.1%}"
    cost = f"{row.seconds:>7.0f}{row.peak_bytes / 1e6:>7.0f}" if row.seconds else f"{'':>14}"
    times = "".join(f"{'' if r is None else str(r):>22}" for r in ratios)
    return f"{row.name:<48}{figures}{cost}{times}  {settings}"
