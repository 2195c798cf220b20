from __future__ import annotations

from dataclasses import replace

import pytest

from fts.engines.choose import choose_engine
from fts.engines.host import Host
from fts.errors import EngineUnavailableError
from fts.vocabulary.manifest import MemberEntry

VNNI = Host(device="cpu", machine="x86_64", isa=frozenset({"vnni"}), onnxruntime="1.32.0", simulates_exactly=True)
AVX2 = replace(VNNI, isa=frozenset())


def listed(recipe):
    members = tuple(MemberEntry(path=p, bytes=0, sha256="0" * 64) for p in recipe.members())
    return replace(recipe.manifest(), members=members)


def choose(recipe, host, *, strict=False, simulate=False):
    return choose_engine(listed(recipe), host, "net.fts", strict=strict, simulate=simulate)


@pytest.mark.parametrize(("strict", "simulate"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_target_s_own_engine_runs_where_it_can(kit, strict, simulate):
    choice = choose(kit.Recipe(isa=("vnni",)), VNNI, strict=strict, simulate=simulate)
    assert choice.member == "engines/cpu-int8.onnx"
    assert choice.text == "onnxruntime-cpu int8 on cpu (x86_64)"
    assert choice.evidence.tag == "measured"
    assert choice.evidence.by == "onnxruntime 1.32.0 CPUExecutionProvider"
    assert not choice.exact_u8s8
    assert choice.fallback == ""


def test_a_portable_net_that_is_the_target_itself_is_no_fallback(kit):
    choice = choose(kit.Recipe(target="cpu-fp32", encoded=None), AVX2, strict=True)
    assert choice.member == "model/portable.onnx"
    assert choice.fallback == ""


def test_without_vnni_the_fp32_net_runs_and_the_warning_names_both_and_the_fix(kit):
    choice = choose(kit.Recipe(isa=("vnni",)), AVX2)
    assert choice.member == "model/portable.onnx"
    for part in ("[fallback]", "net.fts", "target cpu-int8", "onnxruntime-cpu int8, requires vnni", "saturate",
                 "portable FP32 net", "onnxruntime-cpu fp32 on cpu (x86_64)", "--isa any"):  # fmt: skip
        assert part in choice.fallback


def test_strict_refuses_the_fallback_with_both_names_and_the_fix(kit):
    with pytest.raises(EngineUnavailableError) as caught:
        choose(kit.Recipe(isa=("vnni",)), AVX2, strict=True)
    for part in ("net.fts", "cpu-int8", "requires vnni", "cpu (x86_64)", "strict=True", "--isa any"):
        assert part in str(caught.value)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("target", "device"),
    [("orin-int8", "orin"), ("orin-dla-int8", "orin-dla"), ("snapdragon-8gen3-int8", "snapdragon-8gen3")],
)
def test_a_bundle_for_another_device_falls_back_whatever_its_engine_claims(kit, target, device):
    recipe = kit.Recipe(target=target)
    choice = choose(recipe, VNNI)
    assert choice.member == "model/portable.onnx"
    assert f"the bundle is for {device}, this machine is cpu (x86_64)" in choice.fallback
    assert "--target cpu-int8" in choice.fallback
    with pytest.raises(EngineUnavailableError, match=rf"{target}.*cpu \(x86_64\)"):
        choose(recipe, VNNI, strict=True)


def test_simulating_another_device_runs_its_encoded_graph_and_says_so(kit):
    choice = choose(kit.Recipe(target="orin-int8", kind="tensorrt"), AVX2, simulate=True)
    assert choice.member == "engines/orin-int8.onnx"
    assert choice.evidence.tag == "simulated"
    assert "stands in for orin-int8" in choice.evidence.detail
    assert choice.text == "onnxruntime-cpu on cpu (x86_64), simulating orin-int8"
    assert choice.exact_u8s8
    assert choice.fallback == ""


def test_simulating_vnni_without_it_asks_for_exact_sums(kit):
    choice = choose(kit.Recipe(isa=("vnni",)), AVX2, simulate=True)
    assert choice.member == "engines/cpu-int8.onnx"
    assert choice.exact_u8s8
    assert choice.evidence.tag == "simulated"


def test_a_machine_without_exact_kernels_does_not_pretend(kit):
    with pytest.raises(EngineUnavailableError, match=r"no kernels on cpu .* that add u8\*s8 products exactly"):
        choose(kit.Recipe(isa=("vnni",)), replace(AVX2, simulates_exactly=False), simulate=True)


def test_a_bundle_without_the_encoded_graph_cannot_be_simulated(kit):
    with pytest.raises(EngineUnavailableError, match=r"the bundle has no engines/orin-int8\.onnx"):
        choose(kit.Recipe(target="orin-int8", encoded=None), VNNI, simulate=True)


@pytest.mark.parametrize(
    ("needs", "runs"), [("1.19", True), ("1.32.0", True), ("1.32", True), ("1.33", False), ("2", False)]
)
def test_an_engine_for_a_newer_onnxruntime_does_not_run(kit, needs, runs):
    choice = choose(kit.Recipe(onnxruntime=needs), VNNI)
    assert (choice.fallback == "") == runs
    if not runs:
        assert f"it needs onnxruntime >= {needs}, found 1.32.0" in choice.fallback
        assert f"pip install 'onnxruntime>={needs}'" in choice.fallback


def test_an_engine_of_a_kind_unknown_here_does_not_run(kit):
    choice = choose(kit.Recipe(kind="qnn-htp"), VNNI)
    assert choice.member == "model/portable.onnx"
    assert "found qnn-htp, built" in choice.fallback


def test_engines_are_tried_in_their_order(kit):
    manifest = listed(kit.Recipe(isa=("vnni",)))
    own, portable = manifest.engines
    sibling = replace(own, member="golden.npz", requires=replace(own.requires, isa=()))
    choice = choose_engine(
        replace(manifest, engines=(own, sibling, portable)), AVX2, "net.fts", strict=False, simulate=False
    )
    assert choice.member == "golden.npz"
    assert "engine golden.npz runs instead" in choice.fallback


def test_says_so_when_nothing_in_the_bundle_runs_here(kit):
    manifest = listed(kit.Recipe(kind="qnn-htp"))
    with pytest.raises(EngineUnavailableError, match="nothing in the bundle can run instead"):
        choose_engine(replace(manifest, engines=manifest.engines[:1]), VNNI, "net.fts", strict=False, simulate=False)
