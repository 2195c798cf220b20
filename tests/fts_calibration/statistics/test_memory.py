"""Memory of a pass does not grow with the number of samples."""

from __future__ import annotations

import subprocess
import sys

import pytest

FEW, MANY = 20, 200
MOST_GROWTH = 1.1

# Two layers of 64 channels watched: some 20 MB a sample at 128 x 128, so that ten kept samples would show.
COLLECT = '''
import sys
from pathlib import Path
import numpy as np
from onnx import numpy_helper, parser
from fts_calibration.statistics.collect import collect_statistics

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
net (float[1,3,128,128] x) => (float[1,3,128,128] y) {
    a = Conv<pads=[1,1,1,1]>(x, w_in) b = Relu(a) c = Conv<pads=[1,1,1,1]>(b, w) d = Relu(c)
    y = Conv<pads=[1,1,1,1]>(d, w_out)
}"""
rng = np.random.default_rng(0)
model = parser.parse_model(TEXT)
for name, shape in {"w_in": (64, 3, 3, 3), "w": (64, 64, 3, 3), "w_out": (3, 64, 3, 3)}.items():
    model.graph.initializer.append(numpy_helper.from_array(rng.normal(size=shape).astype(np.float32) * 0.1, name))
feeds = ({"x": rng.normal(size=(1, 3, 128, 128)).astype(np.float32)} for _ in range(int(sys.argv[1])))
found = collect_statistics(model, feeds, "xabcdy", "abcdy")
assert found.samples == int(sys.argv[1])
status = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")))
'''


def peak_kib(samples: int) -> int:
    """Greatest resident memory of a process of its own."""
    done = subprocess.run([sys.executable, "-c", COLLECT, str(samples)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
def test_ten_times_the_samples_take_no_more_memory() -> None:
    few, many = peak_kib(FEW), peak_kib(MANY)
    assert many <= MOST_GROWTH * few, f"{few} KiB with {FEW} samples, {many} KiB with {MANY}"
