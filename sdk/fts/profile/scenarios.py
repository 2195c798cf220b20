"""How frames meet the net: `closed` (the next frame after the result) and `open@fps` (a camera that does not wait)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fts.errors import UsageError
from fts.profile.arrivals import Arrivals
from fts.profile.clock import Clock
from fts.profile.stages import EngineSpan

Moments = npt.NDArray[np.int64]
RunFrame = Callable[[int], EngineSpan]

_MAX_FPS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A load.

    Attributes:
        kind: Closed or open loop.
        fps: Rate of an open loop, 0 of a closed one.
        lossless: Whether every frame of an open loop waits for its turn; else the latest wins, as with a camera.
    """

    kind: Literal["closed", "open"]
    fps: float = 0.0
    lossless: bool = False

    def __str__(self) -> str:
        return self.kind if self.kind == "closed" else f"open@{self.fps:g}{',lossless' if self.lossless else ''}"


def scenario_from_text(text: str) -> Scenario:
    """Read `closed`, `open@30` or `open@30,lossless`.

    Raises:
        UsageError: It is none of these.
    """
    if text == "closed":
        return Scenario(kind="closed")
    match = re.fullmatch(r"open@(\d+(?:\.\d+)?)(,lossless)?", text)
    fps = float(match[1]) if match else 0.0
    if match is None or not 0 < fps <= _MAX_FPS:
        raise UsageError(
            f"--scenario {text}: expected closed, open@FPS or open@FPS,lossless with FPS a rate in frames per second, "
            "such as open@30."
        )
    return Scenario(kind="open", fps=fps, lossless=match[2] is not None)


def overload_text(scenario: Scenario, service_ms: float) -> str:
    """What a reader has to know when frames come faster than they can be run, or "".

    Args:
        scenario: The load.
        service_ms: Median time that a frame takes once it is begun.
    """
    if scenario.kind == "closed" or service_ms * scenario.fps <= 1e3:
        return ""
    consequence = "ages grow as long as it is measured" if scenario.lossless else "the others are dropped"
    return f"overloaded: a frame comes each {1e3 / scenario.fps:.3f} ms and takes {service_ms:.3f} ms; {consequence}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """What happened to every frame that was run, in nanoseconds of one clock, int64 (n,) each.

    Attributes:
        due_ns: Intended capture; in a closed loop the moment the frame was handed over.
        begin_ns: Preprocessing begins.
        engine_begin_ns: The engine begins.
        engine_end_ns: The engine ends.
        end_ns: The result is there.
        dropped: Frames that were captured and never run.
    """

    due_ns: Moments
    begin_ns: Moments
    engine_begin_ns: Moments
    engine_end_ns: Moments
    end_ns: Moments
    dropped: int

    @property
    def ages_ms(self) -> npt.NDArray[np.float64]:
        """Intended capture to result, of every frame captured: infinite for those dropped."""
        ages = (self.end_ns - self.due_ns) / 1e6
        return np.concatenate((ages, np.full(self.dropped, np.inf)))


class _Recorder:
    """Moments of frames; five appends a frame, under a microsecond."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int, int]] = []

    def timeline(self, dropped: int) -> Timeline:
        table = np.array(self.rows, np.int64).reshape(-1, 5)
        return Timeline(
            due_ns=table[:, 0],
            begin_ns=table[:, 1],
            engine_begin_ns=table[:, 2],
            engine_end_ns=table[:, 3],
            end_ns=table[:, 4],
            dropped=dropped,
        )


def run_closed(run_frame: RunFrame, clock: Clock, *, seconds: float, least_frames: int = 1) -> Timeline:
    """Run frames one after the other.

    Args:
        run_frame: Runs the frame of a number and says when the engine ran.
        clock: Time.
        seconds: How long.
        least_frames: How many at least, however long that takes.
    """
    recorder = _Recorder()
    stop_ns = clock.now_ns() + round(seconds * 1e9)
    index = 0
    while index < least_frames or clock.now_ns() < stop_ns:
        begin_ns = clock.now_ns()
        span = run_frame(index)
        recorder.rows.append((begin_ns, begin_ns, span.begin_ns, span.end_ns, clock.now_ns()))
        index += 1
    return recorder.timeline(0)


def run_open(run_frame: RunFrame, clock: Clock, arrivals: Arrivals) -> Timeline:
    """Run frames as they arrive, and those that wait when the last has arrived."""
    recorder = _Recorder()
    while (arrival := arrivals.take()) is not None:
        begin_ns = clock.now_ns()
        span = run_frame(arrival.index)
        recorder.rows.append((arrival.due_ns, begin_ns, span.begin_ns, span.end_ns, clock.now_ns()))
    return recorder.timeline(arrivals.dropped)
