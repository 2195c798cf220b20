from __future__ import annotations

import subprocess
import sys

import pytest

import fts

HEAVY = ("numpy", "cv2", "onnxruntime", "onnx")


def loaded_after(code: str) -> str:
    script = f"import sys\n{code}\nprint(','.join(m for m in {HEAVY!r} if m in sys.modules))"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "code",
    [
        "import fts",
        "import fts; dir(fts); fts.FallbackWarning, fts.BundleError, fts.__version__",
        "import fts.commands.run, fts.commands.outcome, fts.commands.progress",
        "from fts.commands.run import main\ntry: main(['--help'])\nexcept SystemExit: pass",
    ],
)
def test_import_and_help_load_nothing_heavy(code):
    assert loaded_after(code).splitlines()[-1] == ""


def test_loading_and_running_need_no_onnx(bundle):
    code = f"import fts, numpy as np\nwith fts.load({str(bundle)!r}) as m: m(np.zeros((40, 40, 3), np.uint8))"
    assert loaded_after(code).splitlines()[-1] == "numpy,cv2,onnxruntime"


def test_every_public_name_resolves_and_stays_what_it_is():
    for _ in range(2):
        for name in fts.__all__:
            assert getattr(fts, name) is getattr(fts, name)
    assert callable(fts.load)
    assert set(fts.__all__) <= set(dir(fts))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fts' has no attribute 'nothing'"):
        _ = fts.nothing  # type: ignore[attr-defined]
