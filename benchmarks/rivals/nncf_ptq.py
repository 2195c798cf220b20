"""nncf.quantize on its ONNX backend: post-training quantization with the data that fts gets.

NNCF sends usage events through openvino-telemetry unless NNCF_CI is set, so this refuses to import it without.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("nncf", "onnxruntime", "onnx")
NO_TELEMETRY = "NNCF_CI"

METHODS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    f"{preset}, {'fast' if fast else 'full'} bias correction": ({"preset": preset, "fast_bias_correction": fast},)
    for preset in ("PERFORMANCE", "MIXED")
    for fast in (True, False)
}


def convert(
    settings: Sequence[Mapping[str, Any]], source: Path, feeds: Sequence[Mapping[str, Any]], folder: Path
) -> Iterator[Path]:
    """Yield one file for each of the settings."""
    if not os.environ.get(NO_TELEMETRY):
        raise RuntimeError(f"set {NO_TELEMETRY}=1 first: nncf sends usage events otherwise")
    import nncf
    import onnx

    for number, chosen in enumerate(settings):
        quantized = nncf.quantize(
            onnx.load(str(source)),
            nncf.Dataset(list(feeds)),
            preset=nncf.QuantizationPreset[chosen["preset"]],
            target_device=nncf.TargetDevice.CPU,
            fast_bias_correction=chosen["fast_bias_correction"],
            subset_size=len(feeds),
        )
        target = folder / f"{number}.onnx"
        onnx.save(quantized, str(target))
        yield target
