"""Statistics that a stopped conversion goes on with: what was counted so far is kept in the stage cache from time to time.

State and result have the same key, all that the result depends on; so a changed net, photo or option starts at 0. Counts,
bounds and float64 sums survive JSON exactly, hence the result is that of an uninterrupted pass, bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import islice
from typing import Any

from fts_calibration.audit.stable_ranges import PartRanges
from fts_calibration.dataset.calibration_set import CalibrationSet
from fts_calibration.statistics.collect import Collector
from fts_calibration.statistics.input_moments import InputMoments
from fts_calibration.statistics.statistics import json_from_statistics
from fts_converters.cache import StageCache
from fts_converters.progress import Progress

# Of work between two writes of some megabytes, which take a third of a second on the largest nets of the bars.
SAVE_EVERY_S = 30.0


def collect_resumable(
    collector: Collector,
    moments: InputMoments,
    data: CalibrationSet,
    cache: StageCache,
    key: Mapping[str, Any],
    progress: Progress,
) -> dict[str, Any]:
    """Run the calibrate split, or what is left of it.

    Args:
        collector: Of the FP32 net, without samples.
        moments: Of its inputs, likewise.
        data: With its splits dealt.
        cache: Where states are kept.
        key: All that the result depends on.
        progress: Told of the samples.

    Returns:
        {"statistics", "moments", "parts"}, each as its `to_json` gives it.

    Raises:
        NonFiniteValueError: As `Collector.add`.
    """
    parts = PartRanges()
    state_key = {**key, "part": "so far"}
    state = cache.get(state_key)
    if state is not None:
        collector.resume(state["collector"])
        moments.resume(state["moments"])
        parts.resume(state["parts"])
        progress.step(f"goes on behind sample {collector.samples}")
    saved_s = time.monotonic()
    for feed in moments.tap(islice(data.feeds("calibrate"), collector.samples, None)):
        parts.add(*collector.add(feed))
        progress.sample(collector.samples)
        if time.monotonic() - saved_s >= SAVE_EVERY_S:
            state = {"collector": collector.state(), "moments": moments.state(), "parts": parts.state()}
            cache.put(state_key, state)
            saved_s = time.monotonic()
    result = {
        "statistics": json_from_statistics(collector.statistics),
        "moments": moments.to_json(),
        "parts": parts.to_json(),
    }
    cache.put(key, result)
    cache.drop(state_key)
    return result
