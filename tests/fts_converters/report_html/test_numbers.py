"""Numbers as the page writes them."""

from __future__ import annotations

import pytest

from fts_converters.report_html import number_text as n
from fts_converters.report_html.calibration import calibration_from_report

from . import samples


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (n.share_text(0.5046), "50.5 %"),
        (n.share_text(0.0001), "< 0.1 %"),
        (n.share_text(0.0), "0.0 %"),
        (n.share_text(None), "–"),
        (n.bytes_text(1_441_792), "1.44 MB"),
        (n.bytes_text(999), "999 B"),
        (n.bytes_text(999_600), "1.00 MB"),
        (n.macs_text(509_607_936), "510 M"),
        (n.macs_text(0), "–"),
        (n.metric_text("psnr.mean", 29.718), "29.72 dB"),
        (n.metric_text("ssim", 0.98765), "0.9877"),
        (n.metric_text("drop", 0.005), "0.50 %"),
        (n.metric_text("nme", 0.00012345), "0.0001234"),
        (n.metric_text("nme", 0.0), "0.0000"),
        (n.metric_text("age.mean", 0.69), "0.690 years"),
        (n.clipped_text(0.00012), "0.012 % clipped"),
        (n.clipped_text(0.0), "none clipped"),
        (n.metric_text("psnr", None), "∞"),
        (n.metric_name("psnr.min"), "PSNR min"),
        (n.metric_name("cosine"), "cosine"),
        (n.metric_name("iou"), "IoU"),
        (n.metric_name("top1.mean"), "top-1 agreement mean"),
        (n.budget_text("psnr>=40"), "psnr ≥ 40"),
        (n.signed_text(-7.51234), "−7.512"),
        (n.signed_text(-0.0), "0"),
        (n.duration_text(3.3), "3.3 s"),
        (n.duration_text(200), "3 min 20 s"),
        (n.milliseconds_text(0.4), "0.400 ms"),
        (n.milliseconds_text(123.45), "123.5 ms"),
        (n.milliseconds_text(None), "n too small"),
    ],
)  # fmt: skip
def test_is_written(found, wanted):
    assert found.replace("\u202f", " ") == wanted


def test_ranges_lie_on_a_symmetric_logarithmic_axis_with_zero_in_the_middle():
    report = samples.report()
    report["calibration"]["ranges"] = [
        {"tensor": "a", "low": 0.0, "high": 9.0},
        {"tensor": "b", "low": -99.0, "high": 99.0},
    ]
    inner, outer = calibration_from_report(report).ranges
    assert (inner.low_at, inner.high_at) == (0.5, pytest.approx(0.75))
    assert (outer.low_at, outer.high_at) == (0.0, 1.0)


def test_files_are_counted_by_split_and_their_mean_is_a_colour():
    found = calibration_from_report(samples.report())
    assert found.counts == (("calibrate", 1), ("verify", 1), ("skipped", 1))
    assert [f.color for f in found.files] == ["#c80a00", "#010203", ""]


def test_tensors_that_are_all_zero_have_a_range_at_zero():
    report = samples.report()
    report["calibration"]["ranges"] = [{"tensor": "a", "low": 0.0, "high": 0.0}]
    (only,) = calibration_from_report(report).ranges
    assert (only.low_at, only.high_at) == (0.5, 0.5)
