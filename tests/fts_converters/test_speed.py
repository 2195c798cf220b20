"""The check of speed: what it finds on a clock that the test sets, and what it says of a net that is slow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import parser

from fts_converters.speed import LEAST_ROUNDS, Speed, compare_speed, why_not_faster


class Clock:
    """Time that passes only when a net runs."""

    def __init__(self, seed: int = 0) -> None:
        self.now_s = 0.0
        self._rng = np.random.default_rng(seed)

    def net(self, usual_s: float, noise: float = 0.0) -> Callable[[], object]:
        def run() -> None:
            self.now_s += usual_s * float(np.exp(noise * self._rng.normal()))

        return run

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(("fp32_s", "is_faster"), [(0.030, True), (0.0201, False), (0.010, False)])
def test_a_ratio_is_claimed_only_outside_of_the_noise(fp32_s: float, is_faster: bool) -> None:
    clock = Clock()
    found = compare_speed(clock.net(0.020, 0.05), clock.net(fp32_s, 0.05), clock=clock)
    assert found.low <= found.ratio <= found.high
    assert found.ratio == pytest.approx(fp32_s / 0.020, rel=0.1)
    assert found.is_faster is is_faster


def test_equal_nets_are_seldom_claimed_faster() -> None:
    claims = 0
    for seed in range(40):
        clock = Clock(seed)
        claims += compare_speed(clock.net(0.020, 0.2), clock.net(0.020, 0.2), clock=clock, seed=seed).is_faster
    assert claims <= 4  # 2.5 % each by the interval; more than 4 of 40 has a chance of 0.2 %


def test_slow_nets_get_enough_rounds() -> None:
    clock = Clock()
    assert compare_speed(clock.net(5.0), clock.net(9.0), clock=clock).rounds == LEAST_ROUNDS


def test_says_where_the_time_goes() -> None:
    net = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,8,64,64] x) => (float[1,8,64,64] y) { a = Exp(x) y = Sin(a) }'
    )
    text = why_not_faster(net.SerializeToString(), {"x": np.ones((1, 8, 64, 64), np.float32)})
    assert text.startswith("0% of its time are integer kernels, 0% conversions")
    assert "100% float operators (" in text
    assert "Exp" in text
    assert "Sin" in text


def test_one_line() -> None:
    speed = Speed(ratio=1.5, low=1.4, high=1.6, int8_ms=20.0, fp32_ms=30.0, rounds=9)
    assert str(speed) == "1.50 times as fast as FP32 (95 % 1.40 to 1.60; 20 against 30 ms, 9 rounds)"
