"""A user's function: found, called and refused with words that help."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fts.errors import UsageError
from fts_calibration.metrics.user_metric import UserMetric, load_user_metric, user_metric_from_json

OUTPUTS = {"y": np.array([1.0, 2.0], np.float32)}
Write = Callable[[str], str]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Write:
    """Write a module of a name of its own into the working directory; gives the name."""
    monkeypatch.chdir(tmp_path)
    name = f"metrics_{hashlib.sha256(request.node.name.encode()).hexdigest()[:12]}"

    def write(text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write


def test_gets_all_outputs_of_both_and_gives_a_number(module):
    name = module("def f(reference, test):\n    return reference['y'][0] - test['y'][1]\n")
    assert load_user_metric(f"{name}:f").value(OUTPUTS, OUTPUTS) == -1.0


@pytest.mark.parametrize("text", ["np.float32(0.5)", "np.array(0.5)", "0.5", "np.float64(0.5)", "1 / 2"])
def test_any_real_number_will_do(module, text):
    name = module(f"import numpy as np\ndef f(reference, test):\n    return {text}\n")
    assert load_user_metric(f"{name}:f").value(OUTPUTS, OUTPUTS) == 0.5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("float('nan')", "it returned nan, expected a finite number"),
        ("float('inf')", "it returned inf"),
        ("None", "it returned a NoneType (None), expected one number"),
        ("'0.9'", "it returned a str"),
        ("True", "it returned a bool"),
        ("test['y']", "it returned a ndarray"),
        ("1 / 0", "ZeroDivisionError: division by zero (metrics_"),
        ("test['z']", "KeyError: 'z'"),
        ("test['y'].fill(0) or 1", "read-only"),
    ],
)
def test_what_it_does_wrong_is_told_with_its_name(module, text, says):
    name = module(f"def f(reference, test):\n    return {text}\n")
    metric = load_user_metric(f"{name}:f")
    with pytest.raises(UsageError) as caught:
        metric.value(OUTPUTS, OUTPUTS)
    assert f"--metric {name}:f: " in str(caught.value)
    assert says in str(caught.value)


def test_the_line_that_raised_is_told(module):
    name = module("def f(reference, test):\n    x = 1\n    raise ValueError('odd')\n")
    with pytest.raises(UsageError, match=rf"ValueError: odd \({name}\.py, line 3\)"):
        load_user_metric(f"{name}:f").value(OUTPUTS, OUTPUTS)


@pytest.mark.parametrize(
    ("text", "function", "says"),
    [
        ("def f(): pass", "g", "has nothing of the name 'g'"),
        ("f = 3", "f", "'f' is a int, expected a function"),
        (
            "import absent_module_of_mine",
            "f",
            "importing it failed: ModuleNotFoundError: No module named 'absent_module_of_mine'",
        ),
        ("1 / 0", "f", "importing it failed: ZeroDivisionError"),
        ("raise SystemExit(3)", "f", "importing it failed: SystemExit"),
        ("def f(:", "f", "importing it failed: SyntaxError"),
    ],
)
def test_what_cannot_be_imported_is_told(module, text, function, says):
    name = module(text)
    with pytest.raises(UsageError) as caught:
        load_user_metric(f"{name}:{function}")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("absent_metrics:f", "there is no module 'absent_metrics' in"),
        ("absent_package.metrics:f", "there is no module 'absent_package.metrics' in"),
        ("metrics.py", "expected package.module:function"),
        ("a/b:f", "expected package.module:function"),
        (":f", "expected package.module:function"),
        ("m:", "expected package.module:function"),
        ("sys:exit", "has no file"),
    ],
)
def test_references_of_another_form_or_to_nothing_are_refused(reference, says):
    with pytest.raises(UsageError) as caught:
        load_user_metric(reference)
    assert says in str(caught.value)


def test_the_digest_is_that_of_the_file(module, tmp_path):
    name = module("def f(reference, test):\n    return 1.0\n")
    metric = load_user_metric(f"{name}:f")
    assert metric.sha256 == hashlib.sha256((tmp_path / f"{name}.py").read_bytes()).hexdigest()
    assert user_metric_from_json(metric.to_json()) == metric
    with pytest.raises(UsageError, match="its file has changed"):
        user_metric_from_json({**metric.to_json(), "sha256": "0" * 64})


def test_a_function_from_elsewhere_counts_with_its_own_file(module, tmp_path):
    (tmp_path / "elsewhere_of_metrics.py").write_text("def g(reference, test):\n    return 2.0\n")
    name = module("from elsewhere_of_metrics import g as f\n")
    both = (tmp_path / f"{name}.py").read_bytes() + (tmp_path / "elsewhere_of_metrics.py").read_bytes()
    found = load_user_metric(f"{name}:f")
    assert found == UserMetric(reference=f"{name}:f", sha256=hashlib.sha256(both).hexdigest())
