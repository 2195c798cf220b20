"""May these figures be a headline? Reasons why not; the table then says UNSTABLE in its place.

A median that comes out 2.5 % different in the next process is not a property of the net. The limits are conventions,
close to those of published practice: 2.5 % run to run, 2 % of frequency where it was locked, and 5 % of the machine for
others, which is what moves a net that uses all CPUs by about as much.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from fts.profile.machine import Machine
from fts.profile.surroundings import Surroundings

MAX_RUN_VARIATION = 0.025
MAX_OTHERS_SHARE = 0.05
MAX_LOCKED_FREQUENCY_CHANGE = 0.02


def variation(run_medians_ms: Sequence[float]) -> float | None:
    """Coefficient of variation of the medians of runs; None for fewer than two."""
    if len(run_medians_ms) < 2:
        return None
    return statistics.stdev(run_medians_ms) / statistics.fmean(run_medians_ms)


def unstable_reasons(
    run_medians_ms: Sequence[float], *, converged: bool, machine: Machine, seen: Surroundings
) -> tuple[str, ...]:
    """Why the figures are no headline; empty when they are.

    Args:
        run_medians_ms: Median of each fresh process.
        converged: Whether the first run's speed settled.
        machine: For whether the frequency is locked.
        seen: What else happened meanwhile.
    """
    reasons = []
    spread = variation(run_medians_ms)
    if spread is None:
        reasons.append("one process alone does not show how runs differ; use --runs 5")
    elif spread > MAX_RUN_VARIATION:
        reasons.append(
            f"the medians of {len(run_medians_ms)} runs vary by {spread:.1%}, more than {MAX_RUN_VARIATION:.1%}"
        )
    if not converged:
        reasons.append("the speed had not settled when warm-up ended")
    if seen.others_share is not None and seen.others_share > MAX_OTHERS_SHARE:
        reasons.append(f"other processes used {seen.others_share:.0%} of the CPUs, more than {MAX_OTHERS_SHARE:.0%}")
    if seen.steal_share is not None and seen.steal_share > MAX_OTHERS_SHARE:
        reasons.append(f"the host took {seen.steal_share:.0%} of the CPU time, more than {MAX_OTHERS_SHARE:.0%}")
    if seen.throttled_periods:
        reasons.append(f"a CPU quota stopped the process {seen.throttled_periods} times")
    low, high = seen.frequency_min_mhz, seen.frequency_max_mhz
    if machine.frequency_locked and low and high and high > low * (1 + MAX_LOCKED_FREQUENCY_CHANGE):
        reasons.append(f"the frequency is locked and still went from {low:.0f} to {high:.0f} MHz")
    return tuple(reasons)
