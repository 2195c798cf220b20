"""The package needs torch, and says how to get it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["torch"] = None
from fts.errors import MissingDependencyError
try:
    import fts_calibration.train.twin
except MissingDependencyError as error:
    print(error)
"""


def test_without_torch_the_message_is_the_pip_line() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("pip install 'fts-edge[convert,torch]'")
