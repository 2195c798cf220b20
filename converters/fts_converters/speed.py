"""Is the converted net faster than its FP32 form on this machine? Measured in turns, inside one process.

Both sessions run the same feed in random order, round by round; the ratio is the median over rounds with its 95 % bootstrap
interval. It is a check of the conversion, not a benchmark: `fts-profile` measures over fresh processes. Times are of one
run, so they stay out of the bundle, which is the same for the same inputs.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fts.engines.isa import available_isa
from fts.profile.layers import kernel_times_from_profile
from fts.profile.profiled_session import ProfiledSession
from fts.profile.tensor_producers import tensor_producers

Feed = Mapping[str, npt.NDArray[np.generic]]
Run = Callable[[], object]

WARM_UP_ROUNDS = 2
LEAST_ROUNDS, MOST_ROUNDS = 7, 60
USUAL_S = 1.0
RESAMPLES = 2000
PROFILED_FRAMES = 4
# Operators that are told by name in a reason.
WORST_TOLD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How many times as fast as FP32.

    Attributes:
        ratio: FP32 time over INT8 time, median over the rounds.
        low: Lower end of its 95 % interval.
        high: Upper end.
        int8_ms: Median time of the converted net.
        fp32_ms: Median time of the FP32 net.
        rounds: Rounds measured.
        why: Where the converted net's time goes; "" when it is faster.
    """

    ratio: float
    low: float
    high: float
    int8_ms: float
    fp32_ms: float
    rounds: int
    why: str = ""

    @property
    def is_faster(self) -> bool:
        """The interval lies above 1."""
        return self.low > 1.0

    def __str__(self) -> str:
        """One line: times, ratio, interval."""
        return (
            f"{self.ratio:.2f} times as fast as FP32 (95 % {self.low:.2f} to {self.high:.2f}; "
            f"{self.int8_ms:.3g} against {self.fp32_ms:.3g} ms, {self.rounds} rounds)"
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self)


def compare_speed(int8: Run, fp32: Run, *, seed: int = 0, clock: Callable[[], float] = time.perf_counter) -> Speed:
    """Run both in turns, for a second or LEAST_ROUNDS rounds, whichever is longer.

    Args:
        int8: Runs the converted net once.
        fp32: Runs the FP32 net once.
        seed: Of the order within a round and of the bootstrap.
        clock: Seconds.
    """
    runs = {"int8": int8, "fp32": fp32}
    times_s: dict[str, list[float]] = {"int8": [], "fp32": []}
    order = random.Random(seed)
    begin_s = clock()
    for number in range(WARM_UP_ROUNDS + MOST_ROUNDS):
        for name in order.sample(sorted(runs), 2):
            start_s = clock()
            runs[name]()
            if number >= WARM_UP_ROUNDS:
                times_s[name].append(clock() - start_s)
        if len(times_s["int8"]) >= LEAST_ROUNDS and clock() - begin_s >= USUAL_S:
            break
    a, b = np.maximum(times_s["int8"], 1e-9), np.maximum(times_s["fp32"], 1e-9)
    logs = np.log(b) - np.log(a)
    drawn = np.random.default_rng(seed).choice(logs, (RESAMPLES, logs.size))
    low, high = np.exp(np.quantile(np.median(drawn, axis=1), [0.025, 0.975]))
    return Speed(
        ratio=float(np.exp(np.median(logs))),
        low=float(low),
        high=float(high),
        int8_ms=float(np.median(a)) * 1e3,
        fp32_ms=float(np.median(b)) * 1e3,
        rounds=int(logs.size),
    )


def why_not_faster(encoded: bytes, feed: Feed) -> str:
    """Where the time of a net goes, in words.

    Args:
        encoded: The converted net, as it runs on this machine.
        feed: What it is run on.
    """
    with tempfile.TemporaryDirectory(prefix="fts-speed-") as folder:
        session = ProfiledSession(encoded, Path(folder), threads=None, exact_u8s8=False)
        for _ in range(PROFILED_FRAMES):
            session.run(dict(feed))
        profile = session.finish().read_text(encoding="utf-8")
    kernels = kernel_times_from_profile(profile, producers=tensor_producers(encoded)).kernels
    total = sum(k.ms for k in kernels) or 1.0
    shares = {ran: sum(k.ms for k in kernels if k.ran == ran) / total for ran in ("int8", "conversion", "float")}
    in_float: dict[str, float] = {}
    for kernel in kernels:
        if kernel.ran == "float":
            in_float[kernel.op_type] = in_float.get(kernel.op_type, 0.0) + kernel.ms / total
    worst = sorted(in_float.items(), key=lambda item: -item[1])[:WORST_TOLD]
    told = ", ".join(f"{op_type} {share:.0%}" for op_type, share in worst)
    text = (
        f"{shares['int8']:.0%} of its time are integer kernels, {shares['conversion']:.0%} conversions between float and "
        f"integers, {shares['float']:.0%} float operators" + (f" ({told})" if told else "")
    )
    if "vnni" not in available_isa():
        text += "; this CPU has no VNNI, so its integer kernels gain little over float ones"
    return text
