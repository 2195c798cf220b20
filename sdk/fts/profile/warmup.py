"""Cold runs and warm-up: run until the net's speed has settled, and tell how it got there.

Settled: at least 200 ms have passed, and the medians of the last 3 windows agree within 2 %. A window is 50 frames, or
fewer for slow nets (a quarter of a second, 3 frames at least). After 30 s it is over, settled or not.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from fts.profile.clock import Clock
from fts.profile.scenarios import RunFrame

CAP_S = 30.0
LEAST_S = 0.2
AGREEMENT = 0.02
_WINDOWS = 3
_WINDOW_FRAMES = 50
_WINDOW_S = 0.25
_LEAST_WINDOW_FRAMES = 3
_COLD_FRAMES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """The way to the steady state.

    Attributes:
        first_ms: Run 1.
        second_ms: Run 2; None when the time was over before it.
        tenth_ms: Run 10, or None.
        frames: Runs until steady, or until the cap.
        seconds: The same in time.
        window_frames: Size of a window.
        converged: Whether the speed settled before the cap.
    """

    first_ms: float
    second_ms: float | None
    tenth_ms: float | None
    frames: int
    seconds: float
    window_frames: int
    converged: bool


def warm_up(run_frame: RunFrame, clock: Clock, *, cap_s: float = CAP_S) -> WarmUp:
    """Run frames until the speed has settled.

    Args:
        run_frame: Runs the frame of a number.
        clock: Time.
        cap_s: When to give up.
    """
    times_ms: list[float] = []
    begin_ns = clock.now_ns()
    window = 0
    converged = False
    while not converged:
        start_ns = clock.now_ns()
        run_frame(len(times_ms))
        end_ns = clock.now_ns()
        times_ms.append((end_ns - start_ns) / 1e6)
        elapsed_s = (end_ns - begin_ns) / 1e9
        if len(times_ms) == _LEAST_WINDOW_FRAMES:
            window = _window_frames(times_ms)
        if window and len(times_ms) % window == 0:
            converged = elapsed_s >= LEAST_S and len(times_ms) >= _COLD_FRAMES and _is_settled(times_ms, window)
        if elapsed_s >= cap_s:
            break
    return WarmUp(
        first_ms=times_ms[0],
        second_ms=times_ms[1] if len(times_ms) > 1 else None,
        tenth_ms=times_ms[_COLD_FRAMES - 1] if len(times_ms) >= _COLD_FRAMES else None,
        frames=len(times_ms),
        seconds=(clock.now_ns() - begin_ns) / 1e9,
        window_frames=window,
        converged=converged,
    )


def _window_frames(times_ms: list[float]) -> int:
    fitting = round(_WINDOW_S * 1e3 / max(statistics.median(times_ms), 1e-6))
    return max(_LEAST_WINDOW_FRAMES, min(_WINDOW_FRAMES, fitting))


def _is_settled(times_ms: list[float], window: int) -> bool:
    if len(times_ms) < _WINDOWS * window:
        return False
    last = times_ms[-_WINDOWS * window :]
    medians = [statistics.median(last[i : i + window]) for i in range(0, _WINDOWS * window, window)]
    return max(medians) <= min(medians) * (1 + AGREEMENT)
