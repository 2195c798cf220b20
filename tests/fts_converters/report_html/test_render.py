"""The page as text: what it says, that it stays light, and that nothing in a report can act in it."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from fts.errors import MissingDependencyError
from fts_converters.report_html import libraries, render
from fts_converters.report_html.content import Sizes
from fts_converters.report_html.pictures import picture_set

from . import samples

MAX_BYTES = 3_000_000
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'</style>{{ 7*7 }}"


def test_a_report_of_300_layers_with_pictures_histograms_and_latency_stays_under_3_mb(page):
    pictures = picture_set([(f"Sample {i}", [samples.png(512, 3 * i + k) for k in range(3)]) for i in range(4)])
    text = page(samples.large_report(300), pictures=pictures, profile=samples.profile(3000))
    assert 300_000 < len(text.encode()) < MAX_BYTES


def test_text_of_model_files_is_inert(parsed):
    report = samples.large_report(4)
    for entry in (*report["nodes"], *report["calibration"]["ranges"], *report["histograms"]):
        entry.update({k: HOSTILE for k in ("name", "tensor", "op_type", "reason", "engine") if k in entry})
    report["nodes"][0]["precision"] = HOSTILE
    for entry in report["sensitivity"]:
        entry.update(unit=HOSTILE, op_type=HOSTILE, decision=HOSTILE)
    report["calibration"]["files"][0].update(path=HOSTILE, reason=HOSTILE, split=HOSTILE)
    report["warnings"] = [{"id": HOSTILE, "text": HOSTILE}]
    report["metrics"][0].update(output=HOSTILE, metric=HOSTILE, budget=HOSTILE, tag=HOSTILE)
    report["budget"] = {"text": HOSTILE, "met": False, "items": [{"failure": HOSTILE}]}
    report.update(target=HOSTILE, dialect=HOSTILE)
    profile = samples.profile(50)
    profile["bundle"]["engine"] = profile["layers"]["rows"][0]["name"] = profile["warnings"][0] = HOSTILE
    profile["scenario"]["name"] = profile["machine"]["cpu_model"] = profile["stages"][0]["name"] = HOSTILE
    found = parsed(
        report, title=HOSTILE, source=HOSTILE, profile=profile, tools={HOSTILE: HOSTILE}, timings_s={HOSTILE: 1.0},
        reproduce=("fts-convert", HOSTILE),
    )  # fmt: skip
    assert [tag for tag, _ in found.elements].count("script") == 1
    assert not [a for tag, a in found.elements if tag == "img" and a.get("src") == "x"]
    assert not [key for _, attributes in found.elements for key in attributes if key.startswith("on")]
    assert found.text.count("<script>alert(1)</script>") > 20
    assert "{{ 7*7 }}" in found.text


def test_the_policy_lets_only_the_pages_own_script_run_and_nothing_be_fetched(page):
    text = page(samples.report())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1]
    script = re.search(r"<script>(.*?)</script>", text, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert "http" not in policy
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', text)
    assert not re.findall(r"url\((?!#|data:)", text)


def test_the_same_report_gives_the_same_page(page):
    pages = [page(samples.large_report(4), profile=samples.profile(100)) for _ in range(2)]
    assert pages[0] == pages[1]


def test_tells_what_was_done_skipped_and_why(parsed):
    text = parsed(samples.report()).text
    assert "Budget met" in text
    assert "psnr ≥ 30 holds on 5 samples that neither calibration nor search saw" in text
    assert "c.txt skipped not a picture" in text
    assert "int8 1 100.0 % integer kernel Conv 1" in text
    assert "fp32 1 – no integer kernel Relu 1" in text
    assert "default-color color was not given: rgb assumed" in text


def test_tells_why_a_budget_was_missed_and_what_to_try(parsed):
    found = parsed(samples.large_report(histograms_of=0), title="deep.cpu-int8.below-budget.fts").text
    assert "Budget missed" in found
    assert "output 'y': psnr>=30 missed on the verify split: 28.20 (n = 16)" in found
    assert "/backbone/1 (Relu, 0.3 % of the MACs) alone in INT8 leaves 26.31 dB of the 30.00 dB wanted" in found
    assert "--min-int8 0.71 predicted" in found
    assert "--budget 'psnr>=28.2' measured" in found


def test_a_budget_of_none_is_neither_met_nor_missed(parsed):
    text = parsed(samples.report(budget={"text": "none", "met": True, "items": []})).text
    assert "No budget was set" in text
    assert "Budget met" not in text


def test_the_headline_is_the_metric_that_missed_even_when_verify_met(parsed):
    metrics = [samples.metric("select", 28.5), samples.metric("verify", 31.25)]
    budget = {"text": "psnr>=30", "met": False, "items": [{"failure": "missed"}]}
    text = parsed(samples.report(metrics=metrics, budget=budget)).text
    assert "PSNR against FP32 28.50 dB measured output y, select split" in text


@pytest.mark.parametrize("tag", ["measured", "simulated", "predicted"])
def test_headline_figures_carry_the_tag_of_their_evidence(parsed, tag):
    text = parsed(samples.report(metrics=[samples.metric(tag=tag)])).text
    assert f"41.25 dB {tag}" in text
    assert f"87.5 % {tag}" in text


def test_sizes_stand_in_the_headline_only_when_known(parsed):
    assert "Size of the engine" not in parsed(samples.report()).text
    text = parsed(samples.report(), sizes=Sizes(bundle=6_180_000, engine=316_000, portable=614_000)).text
    assert "316 kB measured FP32 has 614 kB: 1.9× as much; whole bundle 6.18 MB" in text


def test_equal_outputs_have_an_infinite_metric(parsed):
    assert "y verify PSNR ∞ ∞ – 5" in parsed(samples.report(metrics=[samples.metric(value=None)])).text


def test_the_mean_has_its_interval_and_an_error_its_greatest_sample(parsed):
    text = parsed(samples.report()).text
    assert "y verify PSNR 41.25 dB 43.25 dB 42.25 dB to 44.25 dB 5 psnr ≥ 30 met" in text
    error = samples.metric(
        output="points", metric="nme", budget="nme<=0.02", min=0.004, mean=0.01, max=0.0181, value=0.0181,
        interval=[0.006, 0.014], met=True, margin_db=0.87,
    )  # fmt: skip
    text = parsed(samples.report(metrics=[samples.metric(), error])).text
    assert "points verify NME 0.0181 0.01 0.006 to 0.014 5 nme ≤ 0.02 met" in text
    assert "NME against FP32 0.0181 measured" in text  # 0.87 dB left; of the other, 11


def test_a_missed_error_is_told_with_a_budget_that_it_holds(parsed):
    error = samples.metric(
        output="points", metric="nme", budget="nme<=0.02", min=0.004, mean=0.01, max=0.03456, value=0.03456, met=False,
        margin_db=-4.75,
    )  # fmt: skip
    budget = {"text": "nme<=0.02", "met": False, "items": [{"failure": "missed"}]}
    assert (
        "--budget 'points:nme<=0.0346'" in parsed(samples.report(metrics=[samples.metric(), error], budget=budget)).text
    )


def test_histograms_say_what_is_clipped(parsed):
    report = samples.large_report(2)
    report["histograms"][1] = {k: v for k, v in report["histograms"][1].items() if k not in ("clip", "clipped")}
    report["histograms"][1]["grid"] = "channel"
    text = parsed(report).text
    assert "holds −40 to 41.5; 0.12 % clipped" in text
    assert "a grid for each channel" in text


def test_a_report_of_an_older_fts_without_ranges_and_metrics_renders(parsed):
    report = samples.report(metrics=[])
    del report["calibration"]["ranges"], report["sensitivity"], report["kernels"], report["histograms"]
    text = parsed(report).text
    assert "Nothing was scored" in text
    assert "grid has to cover" not in text


def test_histograms_are_drawn_for_the_most_sensitive_and_the_rest_is_told(page, monkeypatch):
    monkeypatch.setattr(render, "HISTOGRAMS", 3)
    report = samples.large_report(8)
    report["histograms"].reverse()
    text = page(report)
    drawn = re.findall(r'aria-label="Histogram of ([^,]+), -50 to 50; quantized from -40 to 41.5"', text)
    assert drawn == [f"{n['name']}_output_0" for n in report["nodes"][:3]]
    assert "3 of 8, the most sensitive first" in text


def test_plots_take_their_colours_from_the_page(page):
    text = page(samples.large_report(2), profile=samples.profile(100))
    drawings = re.findall(r'<svg xmlns="http.*?</svg>', text, re.S)
    assert len(drawings) == 4
    for drawing in drawings:
        assert not re.findall(r"(?:fill|stroke): #(?!fff)\w+", drawing)
        assert "var(--integer)" in drawing


def test_without_its_libraries_the_error_is_the_line_to_type(page, monkeypatch):
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'fts-edge\[report\]'"):
        page(samples.report())


def test_headings_and_controls_are_labelled(parsed):
    elements = parsed(samples.large_report(4)).elements
    assert ("html", {"lang": "en"}) in elements
    assert [tag for tag, _ in elements].count("h1") == 1
    assert all("alt" in a for tag, a in elements if tag == "img")
    assert all(a.get("scope") == "col" for tag, a in elements if tag == "th")


def test_every_template_is_used():
    folder = Path(render.__file__).with_name("templates")
    texts = {p.name: p.read_text() for p in folder.iterdir()}
    used = set(re.findall(r'(?:include|from) "([\w.]+)"', "".join(texts.values()))) | {"report.html"}
    assert used | {"style.css", "report.js"} == set(texts)
