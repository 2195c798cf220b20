"""nncf.quantize on its ONNX backend, on the net as it is and after onnxruntime's quant_pre_process.

NNCF sends usage events through openvino-telemetry. That package is kept from being imported, which NNCF takes as a
request to send nothing, and NNCF_CI, which it takes for one too, has to be set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("nncf", "onnxruntime", "onnx")
NO_TELEMETRY = "NNCF_CI"

METHODS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    f"{preset}, {'fast' if fast else 'full'} bias correction": tuple(
        {"preset": preset, "fast_bias_correction": fast, "pre_process": pre_process} for pre_process in (False, True)
    )
    for preset in ("PERFORMANCE", "MIXED")
    for fast in (True, False)
}


def convert(
    settings: Sequence[Mapping[str, Any]], source: Path, feeds: Sequence[Mapping[str, Any]], folder: Path
) -> Iterator[Path]:
    """Yield one file for each of the settings."""
    if not os.environ.get(NO_TELEMETRY):
        raise RuntimeError(f"set {NO_TELEMETRY}=1 first: nncf sends usage events otherwise")
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # cannot be imported, so nncf goes without
    import nncf
    import onnx
    from onnxruntime.quantization.shape_inference import quant_pre_process

    for number, chosen in enumerate(settings):
        net = source
        if chosen["pre_process"]:
            net = folder / "prepared.onnx"
            quant_pre_process(str(source), str(net))
        quantized = nncf.quantize(
            onnx.load(str(net)),
            nncf.Dataset(list(feeds)),
            preset=nncf.QuantizationPreset[chosen["preset"]],
            target_device=nncf.TargetDevice.CPU,
            fast_bias_correction=chosen["fast_bias_correction"],
            subset_size=len(feeds),
        )
        target = folder / f"{number}.onnx"
        onnx.save(quantized, str(target))
        yield target
