from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import fts
from fts import loading
from fts.engines.host import this_host
from fts.errors import BundleManifestError, EngineError

# The engine multiplies a whole number of steps by the step and divides again, both rounded to float32.
FLOAT32_STEP = 2 * float(np.finfo(np.float32).eps)


@pytest.fixture
def on(monkeypatch):
    """Pretend to be on a machine with these properties."""

    def pretend(**changes):
        host = replace(this_host(), **changes)
        monkeypatch.setattr(loading, "this_host", lambda: host)
        return host

    return pretend


@pytest.fixture
def picture():
    return np.random.default_rng(3).random((1, 3, 32, 32), dtype=np.float32)


def test_loads_by_str_and_by_path_again_and_again(bundle):
    for path in (bundle, str(bundle)):
        with fts.load(path) as model:
            assert model.path == bundle


def test_says_what_the_model_is(kit, tmp_path):
    path = kit.aged(default=[[1.0]]).write(tmp_path / "aged.cpu-int8.fts")
    with fts.load(path) as model:
        assert [(i.name, i.dtype, i.shape, i.kind) for i in model.inputs] == [
            ("x", "float32", (1, 3, 32, 32), "image"),
            ("age", "float32", (1, 1), "tensor"),
        ]
        assert [o.name for o in model.outputs] == ["y", "twice"]
        assert model.target == model.manifest.target == "cpu-int8"
        assert model.engine == f"onnxruntime-cpu int8 on {this_host()}"
        assert model.evidence.tag == "measured"


def test_a_bundle_that_runs_as_it_should_warns_of_nothing(bundle):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fts.load(bundle, strict=True).close()


def test_without_vnni_the_fp32_net_runs_with_one_warning_at_the_caller_s_line(kit, tmp_path, on, picture):
    host = on(isa=frozenset())
    path = kit.saturating(isa=("vnni",)).write(tmp_path / "net.cpu-int8.fts")
    with pytest.warns(fts.FallbackWarning) as caught:
        model = fts.load(path)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    for part in (
        "net.cpu-int8.fts",
        "target cpu-int8",
        "requires vnni",
        f"onnxruntime-cpu fp32 on {host}",
        "--isa any",
    ):
        assert part in str(caught[0].message)
    expected = picture.sum(axis=1, keepdims=True) * 127 / np.float32(3 * 127 / 255)
    np.testing.assert_allclose(model.infer({"x": picture})["y"], np.repeat(expected, 3, axis=1), rtol=1e-5)


def test_without_vnni_strict_raises_with_both_names(kit, tmp_path, on):
    host = on(isa=frozenset())
    path = kit.saturating(isa=("vnni",)).write(tmp_path / "net.cpu-int8.fts")
    with pytest.raises(fts.EngineUnavailableError) as caught:
        fts.load(path, strict=True)
    assert "net.cpu-int8.fts" in str(caught.value)
    assert str(host) in str(caught.value)


def test_simulation_computes_the_exact_integers_on_a_machine_that_saturates(kit, tmp_path, on, picture):
    on(isa=frozenset())
    path = kit.saturating(isa=("vnni",)).write(tmp_path / "net.cpu-int8.fts")
    with fts.load(path, simulate=True) as model:
        y = model.infer({"x": picture})["y"]
        assert model.evidence.tag == "simulated"
    pixels = np.rint(picture * np.float32(255)).astype(np.int64)
    assert (pixels[:, :2].sum(axis=1) * 127).max() > 32767  # a pair of products that vpmaddubsw would cut
    # y counts output steps of 3*127/255, from sums in units of 1/255.
    exact = np.rint(pixels.sum(axis=1, keepdims=True) * 127 / 255 / (3 * 127 / 255))
    np.testing.assert_allclose(y, np.repeat(exact, 3, axis=1), rtol=FLOAT32_STEP)


def test_a_bundle_for_another_device_runs_in_fp32_with_a_warning_of_both_names(kit, tmp_path, picture):
    path = kit.Recipe(target="orin-int8", kind="tensorrt").write(tmp_path / "net.orin-int8.fts")
    with pytest.warns(fts.FallbackWarning, match=r"target orin-int8 \(tensorrt int8.*cpu \("):
        model = fts.load(path)
    np.testing.assert_array_equal(model.infer({"x": picture})["y"], 1 - picture)
    with pytest.raises(fts.EngineUnavailableError, match=r"orin-int8.*cpu \("):
        fts.load(path, strict=True)
    with fts.load(path, simulate=True) as simulated:
        assert simulated.evidence.tag == "simulated"
        assert "simulating orin-int8" in simulated.engine


def test_a_bundle_below_its_budget_is_refused_with_the_figures_and_the_ways_out(kit, tmp_path):
    path = kit.Recipe(met=False).write(tmp_path / "net.below-budget.fts")
    with pytest.raises(fts.BelowBudgetError) as caught:
        fts.load(path)
    for part in ("net.below-budget.fts", "'psnr>=30'", "28.5", "allow_below_budget=True"):
        assert part in str(caught.value)
    assert caught.value.exit_code == 3
    with fts.load(path, allow_below_budget=True) as model:
        assert model.manifest.quality["met"] is False


@pytest.mark.parametrize("name", ["budget_ms", "period_ms"])
def test_a_latency_budget_is_refused_not_ignored(bundle, name):
    with pytest.raises(fts.UsageError, match=f"{name}=50: latency budgets are not in this version"):
        fts.load(bundle, **{name: 50})


@pytest.mark.parametrize(("name", "value"), [("build", "later"), ("threads", 0), ("threads", 1.5), ("threads", True)])
def test_a_wrong_argument_is_a_value_error(bundle, name, value):
    with pytest.raises(ValueError, match=rf"{name} is .*expected"):
        fts.load(bundle, **{name: value})


def test_an_engine_that_onnxruntime_refuses_is_named(kit, tmp_path):
    path = kit.Recipe(encoded=b"not onnx").write(tmp_path / "net.fts")
    with pytest.raises(EngineError, match=r"net\.fts: engines/cpu-int8\.onnx: onnxruntime .* cannot load it"):
        fts.load(path)


def test_a_manifest_that_contradicts_the_net_is_refused(kit, tmp_path):
    path = kit.Recipe(outputs=(kit.image_output("z"),)).write(tmp_path / "net.fts")
    with pytest.raises(BundleManifestError, match="the net has the outputs y, the manifest lists z"):
        fts.load(path)


def test_the_threads_asked_for_reach_the_engine(bundle, monkeypatch):
    seen = {}
    real = loading.open_session
    monkeypatch.setattr(loading, "open_session", lambda m, **k: seen.update(k) or real(m, **k))
    fts.load(bundle, threads=3).close()
    assert seen["threads"] == 3
