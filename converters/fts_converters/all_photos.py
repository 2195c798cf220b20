"""Ranges of the photos that choices were made on, beside those of the calibrate split: the last step before encoding.

What was chosen (calibrator, headroom, plan, weights) stays as it is; ranges alone are taken again, by the same method, from
twice as many scenes. Photos to come exceed them less often. The verify split has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fts.vocabulary.dialect import Dialect
from fts_calibration.calibrators import calibrated
from fts_calibration.metrics.budget import worst
from fts_calibration.statistics.collect import collect_statistics
from fts_calibration.statistics.statistics import merged_statistics
from fts_converters.prepare import Prepared
from fts_converters.progress import Progress
from fts_converters.quantize.choose_headroom import with_headroom
from fts_converters.quantize.search_budget import SearchResult
from fts_converters.quantize.trials import Trials, open_trials

# A wider grid rounds a little more coarsely; photos that it clips less often are worth this many decibels on the select split.
ALLOWED_LOSS_DB = 0.25


def with_all_photos(
    prepared: Prepared,
    found: SearchResult,
    dialect: Dialect,
    trials_of: Callable[[Prepared], Trials],
    progress: Progress,
) -> tuple[Prepared, SearchResult]:
    """The same plan with ranges of both splits, unless the select split scores worse so.

    Args:
        prepared: The net as it was searched.
        found: The plan.
        dialect: Encoding.
        trials_of: Makes the trials of a net.
        progress: Told what it gave.
    """
    seen = prepared.seen
    if seen is None or not any(n.precision == "int8" for n in found.plan.nodes) or not found.scores:
        return prepared, found
    index = prepared.index
    feeds = prepared.data.feeds("select")
    more = collect_statistics(index.model, feeds, list(seen.ranges), list(seen.channel_ranges), weights=index.weights)
    both = calibrated(merged_statistics(seen, more), prepared.calibrator, dialect.activation)
    candidate = replace(prepared, statistics=with_headroom(both, prepared.headroom))
    with open_trials(trials_of(candidate)) as trials:
        scores = trials.scores(found.plan)
    before, after = worst(found.scores), worst(scores)
    is_met = all(s.margin >= 0 for s in scores)
    is_kept = after.margin >= before.margin - ALLOWED_LOSS_DB and is_met >= found.is_met
    figure = after.budget.figure
    progress.step(
        f"ranges of all photos: {after.budget.metric} {figure(before.value)} -> {figure(after.value)}, "
        f"{'kept' if is_kept else 'not kept'}"
    )
    return (candidate, replace(found, scores=scores, is_met=is_met)) if is_kept else (prepared, found)
