"""The order in which units leave INT8, held against every combination of choices."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from fts_converters.quantize.upgrade_path import Choice, upgrade_path

LEVELS = ("int8", "fine", "float")


def offer(*pairs: tuple[float, float]) -> tuple[Choice, ...]:
    return tuple(Choice(level=level, cost=c, noise=n) for level, (c, n) in zip(LEVELS, pairs, strict=False))


def test_most_noise_for_its_cost_comes_first():
    path = upgrade_path({"a": offer((1, 5), (2, 1), (4, 0)), "b": offer((1, 30), (3, 2), (4, 0))})
    assert [(s.unit, s.level) for s in path] == [("b", "fine"), ("a", "fine"), ("b", "float"), ("a", "float")]


def test_a_level_off_the_hull_is_passed_over():
    """Finer brings 1 for 2, float 8 for 3: nobody should stop on the way."""
    (step,) = upgrade_path({"a": offer((1, 8), (3, 7), (4, 0))})
    assert (step.level, step.noise, step.cost) == ("float", 8, 3)


def test_what_is_noisier_than_int8_is_no_choice():
    path = upgrade_path({"a": offer((1, 2), (2, 3), (4, 0))})
    assert [s.level for s in path] == ["float"]


def test_a_unit_without_noise_stays():
    assert upgrade_path({"a": offer((1, 0), (2, 0), (4, 0))}) == ()


def test_a_step_that_costs_nothing_comes_first():
    path = upgrade_path({"a": offer((1, 9), (2, 0)), "b": offer((1, 1), (1, 0.5))})
    assert path[0].unit == "b"


choices = st.tuples(*[st.tuples(st.integers(0, 20), st.integers(0, 50))] * 2).map(
    lambda more: offer((0, 50), *((c, n) for c, n in more))
)


@given(st.lists(choices, min_size=1, max_size=4))
def test_no_combination_is_cheaper_with_less_noise_than_a_beginning_of_the_path(offered):
    by_unit = {f"u{i}": o for i, o in enumerate(offered)}
    combinations = [(sum(c.cost for c in combo), sum(c.noise for c in combo)) for combo in product(*offered)]
    cost = sum(o[0].cost for o in offered)
    noise = sum(o[0].noise for o in offered)
    reached = [(cost, noise)]
    for step in upgrade_path(by_unit):
        cost, noise = cost + step.cost, noise - step.noise
        reached.append((cost, noise))
    for cost, noise in reached:
        assert not any(c < cost - 1e-9 and n <= noise + 1e-9 for c, n in combinations)
