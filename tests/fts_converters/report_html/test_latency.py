"""The latency section says what the profile says and nothing more."""

from __future__ import annotations

import numpy as np
import pytest

from fts_converters.report_html.latency import latency_from_profile
from fts_converters.report_html.plots import latency_histogram

from . import samples


def test_percentiles_and_intervals_stand_as_they_were_measured(parsed):
    text = parsed(samples.report(), profile=samples.profile()).text
    assert "p50 12.31 ms 12.20 ms to 12.45 ms" in text
    assert "p99 n too small 26.00 ms to …" in text
    assert "Latency, p50 12.31 ms measured" in text
    assert "the CPU governor could not be read" in text


def test_an_unstable_run_has_no_headline_and_says_why(parsed):
    text = parsed(samples.report(), profile=samples.profile(stable=False)).text
    assert "12.31 ms" not in text
    assert "9.90 ms" not in text
    assert "Unstable: no figure is given for the latency other processes took 31 % of the CPUs" in text


def test_without_raw_samples_there_is_no_histogram_and_the_page_says_so(parsed):
    text = parsed(samples.report(), profile=samples.profile(samples=False)).text
    assert "The profile holds no raw samples" in text


def test_an_age_is_the_sum_of_a_frames_stages():
    profile = samples.profile(10)
    run = profile["samples"][0]
    expected = [sum(run[f"{s}_ms"][0] for s in ("wait", "pre", "engine", "post"))]
    assert latency_from_profile(profile).ages_ms[:1].tolist() == pytest.approx(expected)
    assert latency_from_profile(profile).ages_ms.size == 10


@pytest.mark.parametrize(
    ("ratio", "differs", "words"),
    [
        (0.5, True, "2.00× faster than the portable FP32 net"),
        (1.5, True, "1.50× slower than the portable FP32 net"),
        (1.01, False, "no difference detected"),
    ],
)
def test_the_ratio_is_a_claim_only_where_the_profile_claims_it(ratio, differs, words):
    profile = samples.profile(10)
    profile["ratio"] = {
        **profile["ratio"],
        "ratio": ratio,
        "low": ratio - 0.02,
        "high": ratio + 0.02,
        "differs": differs,
    }
    assert words in latency_from_profile(profile).ratio


def test_cpu_time_is_never_told_as_speed():
    profile = samples.profile(10)
    profile["ratio"] = {**profile["ratio"], "ratio": 0.5, "low": 0.48, "high": 0.52, "measure": "CPU time"}
    text = latency_from_profile(profile).ratio
    assert "2.00× less CPU time" in text
    assert "too busy to compare wall time" in text
    assert "faster" not in text


def test_a_missing_comparison_gives_its_reason():
    profile = samples.profile(10) | {"ratio": {"against": None, "reason": "the bundle runs its FP32 net"}}
    assert latency_from_profile(profile).ratio == "Not compared with FP32: the bundle runs its FP32 net"


def test_lost_frames_are_told(parsed):
    profile = samples.profile(100)
    profile["latency"]["dropped"] = 7
    assert "100 frames, 7 of them dropped" in parsed(samples.report(), profile=profile).text


def test_slow_frames_beyond_the_edge_are_gathered_and_counted():
    ages = np.concatenate([np.full(99, 10.0), [10.5, 500.0, 600.0]])
    rows = latency_from_profile(samples.profile(10)).percentiles
    assert "2 slower frames gathered at the right edge" in latency_histogram(ages, rows, 760)


def test_frames_of_one_age_draw_without_a_warning(recwarn):
    rows = latency_from_profile(samples.profile(10)).percentiles[2:]
    assert "<svg" in latency_histogram(np.full(20, 12.0), rows, 360)
    assert not recwarn.list


def test_a_document_that_is_no_profile_is_refused():
    with pytest.raises(KeyError):
        latency_from_profile({"schema_version": 1})
