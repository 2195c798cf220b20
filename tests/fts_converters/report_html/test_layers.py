"""Layers in groups by reason."""

from __future__ import annotations

from fts_converters.report_html.layers import decisions, layers_from_report

from . import samples


def grouped(nodes):
    return decisions(layers_from_report({"nodes": nodes}))


def test_reasons_that_differ_only_in_the_operator_or_in_numbers_are_one_group():
    nodes = [
        samples.node("a", "Sub", "fp32", 0, reason="the engine has no integer kernel for Sub here"),
        samples.node("b", "Pow", "fp32", 0, reason="the engine has no integer kernel for Pow here"),
        samples.node("c", "Conv", "fp32", 30, reason="in float for the budget: alone it leaves psnr 21.8"),
        samples.node("d", "Conv", "fp32", 10, reason="in float for the budget: alone it leaves psnr 27.3"),
        samples.node("e", "Conv", "int8", 60),
    ]
    found = [(d.precision, d.layers, round(d.share, 3), d.reason, d.ops) for d in grouped(nodes)]
    assert found == [
        ("int8", 1, 0.6, "integer kernel", (("Conv", 1),)),
        ("fp32", 2, 0.4, "in float for the budget", (("Conv", 2),)),
        ("fp32", 2, 0.0, "the engine has no integer kernel for this operator here", (("Sub", 1), ("Pow", 1))),
    ]


def test_a_reason_without_numbers_after_its_colon_stays_whole():
    (only,) = grouped([samples.node("a", precision="fp32", reason="encoded: but the engine runs it in float")])
    assert only.reason == "encoded: but the engine runs it in float"


def test_a_net_without_counted_operators_has_shares_of_zero():
    (layer,) = layers_from_report({"nodes": [samples.node("a", "Relu", macs=0)]})
    assert layer.share == 0.0


def test_int16_counts_as_integer_and_bf16_does_not():
    layers = layers_from_report({"nodes": [samples.node("a", precision="int16"), samples.node("b", precision="bf16")]})
    assert [layer.is_integer for layer in layers] == [True, False]
