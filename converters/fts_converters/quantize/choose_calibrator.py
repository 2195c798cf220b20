"""Choose how ranges are taken from histograms by what comes out of the whole net, not by any tensor's own error."""

from __future__ import annotations

from collections.abc import Callable

from fts.vocabulary.quantization import Scheme
from fts_calibration.calibrators import CALIBRATORS, calibrated
from fts_calibration.metrics.budget import Score
from fts_calibration.statistics.statistics import Statistics

USUAL = "min-max"


def choose_calibrator(
    statistics: Statistics,
    scheme: Scheme,
    score: Callable[[Statistics], Score],
    on_step: Callable[[str], None],
) -> tuple[str, Statistics]:
    """Try every calibrator for the net as a whole.

    Args:
        statistics: As collected.
        scheme: Grid of activations.
        score: The worst output's score under other ranges, on the select split.
        on_step: Told what each one gives.

    Returns:
        Name of the best and the statistics with its ranges; min-max where none is better.
    """
    best_name, best, best_score = USUAL, statistics, score(statistics)
    told = [f"{USUAL} {best_score.budget.figure(best_score.value)}"]
    tried = [statistics.ranges]
    for name in (name for name in CALIBRATORS if name != USUAL):
        candidate = calibrated(statistics, name, scheme)
        if candidate.ranges in tried:
            continue
        tried.append(candidate.ranges)
        found = score(candidate)
        told.append(f"{name} {found.budget.figure(found.value)}")
        if found.margin > best_score.margin:
            best_name, best, best_score = name, candidate, found
    if len(told) > 1:
        on_step(f"ranges by {best_name} ({best_score.budget.metric}: {', '.join(told)})")
    return best_name, best
