"""The bars, judged from rows made by hand."""

from __future__ import annotations

import pytest
from rivals.integer_share import IntegerShare
from rivals.interleave import Ratio
from rivals.row import OURS, Row, best_of_each_method
from rivals.score import Fidelity
from rivals.verdict import verdicts


def row(
    rival: str, share: float, *db: float, method: str = "", years: tuple[float, ...] = (), exact: bool = False
) -> Row:
    return Row(
        rival=rival,
        method=method,
        settings={"exact_u8s8": exact},
        fidelity=Fidelity(db=db, years=years),
        share=IntegerShare(share=share, nodes=1, of_nodes=1, counted=1.0),
    )


def ratio(median: float) -> Ratio:
    return Ratio(median=median, low=median * 0.99, high=median * 1.01, rounds=9)


def met(net, ours, rivals, latency=None):
    return {(v.bar, v.is_floor): v.met for v in verdicts(net, ours, rivals, latency or {})}


PEER = "at least the best peer with >= 70% integer", True
ANY = "at least the best peer of any kind", False
SHARE = ">= 85% integer", True


@pytest.mark.parametrize(("ours_db", "expected"), [(40.0, True), (39.996, True), (39.9, False), (41.0, True)])
def test_the_minimum_over_the_crops_is_compared_in_hundredths_of_a_db(ours_db, expected):
    found = met("ocr_det", row(OURS, 0.9, 60.0, ours_db), [row("a", 0.9, 40.0, 40.0), row("b", 0.8, 70.0, 39.0)])
    assert found[PEER] is expected


def test_a_rival_in_float_kernels_counts_for_the_aim_alone():
    found = met("ocr_det", row(OURS, 0.9, 40.0), [row("a", 0.69, 50.0), row("b", 0.7, 39.0)])
    assert found[PEER] is True
    assert found[ANY] is False


def test_years_are_judged_by_their_mean_and_less_is_better():
    ours = row(OURS, 0.9, 20.0, 20.0, years=(0.2, 0.6))
    found = met("age_81", ours, [row("a", 0.9, 50.0, 50.0, years=(0.5, 0.5))])
    assert found[PEER] is True
    assert found["mean <= 0.5 years at >= 85% integer", False] is True


def test_a_share_below_the_bar_misses_it_and_the_bars_that_ask_for_a_share():
    found = met("cyclegan_vintage", row(OURS, 0.84, 39.0), [])
    assert found[SHARE] is False
    assert found["minimum >= 34 dB at >= 90% integer", True] is False


def test_a_variant_of_a_net_has_the_net_s_own_bars():
    assert met("style_multi26/9", row(OURS, 0.9, 33.0, 31.5), [])["mean >= 32 dB at >= 85% integer", False] is True


def test_nothing_is_claimed_where_there_is_nothing_to_compare_with():
    assert met("ocr_det", row(OURS, 0.9, 40.0), [])[PEER] is None
    assert met("ocr_det", None, [row("a", 0.9, 40.0)]) == {("one bundle", True): None}


def test_a_failed_conversion_of_ours_is_a_missed_floor():
    assert met("ocr_det", Row(rival=OURS, method="", settings={}, error="no"), []) == {("one bundle", True): False}


@pytest.mark.parametrize(("over_fastest", "expected"), [(1.05, True), (1.06, False)])
def test_latency_is_compared_with_the_fastest_peer_that_is_integer(over_fastest, expected):
    peers = [row("slow", 0.9, 50.0), row("fast", 0.9, 40.0), row("float", 0.1, 60.0)]
    ratios = {"slow": ratio(2.0), "fast": ratio(1.0), "float": ratio(0.5)}
    ratios |= {"fts / slow": ratio(0.5), "fts / fast": ratio(over_fastest), "fts / float": ratio(2.1)}
    found = met("ocr_det", row(OURS, 0.9, 45.0), peers, {2: ratios})
    assert found["2 threads: time over that of the fastest such peer <= 1.05", True] is expected


def test_a_method_is_stood_for_by_a_peer_of_the_bar_before_a_better_figure_in_float():
    rows = [
        row("a", 0.5, 60.0, method="m"),
        row("a", 0.9, 40.0, method="m"),
        row("a", 0.9, 41.0, method="m", exact=True),
        row("a", 0.2, 30.0, method="n"),
        Row(rival="a", method="o", settings={}, error="it failed"),
        Row(rival="a", method="n", settings={}, error="it failed"),
    ]
    chosen = best_of_each_method(rows)
    assert [(r.method, r.merit) for r in chosen] == [("m", 41.0), ("n", 30.0), ("o", float("-inf"))]
    assert chosen[2].error == "it failed"
