"""Calibration streams: memory does not grow with the number of photos."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .conftest import TARGET, command_line
from .nets import CONV, save_net, save_pictures

# The bar of the field: 200 photos against 20.
MOST_GROWTH = 1.1

FULL_SIZE = f"""
net (float[1,3,128,128] x) => (float[1,3,128,128] y) {{
    a = {CONV}(x, w_in, b_in) b = Relu(a) c = {CONV}(b, w_out) d = Sigmoid(c)
    e = {CONV}(d, w_in, b_in) f = Relu(e) g = {CONV}(f, w_out) y = Sigmoid(g)
}}"""


def peak_rss_kib(folder: Path, photos: str) -> int:
    """Of the converting process and the one that verifies, whichever is larger."""
    command = command_line("net.onnx", *TARGET, "--calib", photos, "-q", "--no-cache", "-o", f"{photos}.fts")
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss


@pytest.mark.slow
def test_ten_times_the_photos_take_no_more_memory(tmp_path: Path) -> None:
    save_net(tmp_path / "net.onnx", FULL_SIZE)
    for count in (20, 200):
        save_pictures(tmp_path / str(count), count, height=128, width=128)
    few, many = peak_rss_kib(tmp_path, "20"), peak_rss_kib(tmp_path, "200")
    assert many <= MOST_GROWTH * few, f"{few} KiB with 20 photos, {many} KiB with 200"
