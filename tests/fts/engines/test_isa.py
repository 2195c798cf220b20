from __future__ import annotations

import numpy as np
from onnx import parser

from fts.engines import isa
from fts.engines.onnxruntime_session import open_session


def test_the_probe_is_the_model_that_its_comment_says():
    weights = ",".join(["127"] * 256)
    text = f"""<ir_version: 8, opset_import: ["" : 13]>
    g (uint8[8,16] a) => (int32[8,16] y) <uint8 za = {{0}}, int8 zb = {{0}}, int8[16,16] b = {{{weights}}}> {{
      y = MatMulInteger (a, b, za, zb)
    }}"""
    assert parser.parse_model(text).SerializeToString() == isa.PROBE_MODEL
    assert len(isa.PROBE_MODEL) < 1024


def test_small_values_sum_exactly_everywhere_so_the_probe_tells_saturation_alone():
    (sums,) = open_session(isa.PROBE_MODEL, threads=1).run({"a": np.full((8, 16), 100, np.uint8)})
    assert set(sums.ravel().tolist()) == {16 * 100 * 127}


def test_vnni_is_reported_just_where_sums_are_exact():
    assert isa.available_isa() == (frozenset({"vnni"}) if isa.is_u8s8_exact() else frozenset())


def test_the_exact_kernels_are_exact_on_this_machine():
    assert isa.is_u8s8_exact(exact_u8s8=True)


def test_a_machine_that_saturates_is_told_apart(monkeypatch):
    class Saturating:
        def run(self, feeds):
            return [np.full((8, 16), 8 * 32767, np.int32)]

    monkeypatch.setattr(isa, "open_session", lambda *_, **__: Saturating())
    assert not isa.is_u8s8_exact.__wrapped__()
