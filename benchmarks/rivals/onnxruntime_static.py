"""onnxruntime.quantization.quantize_static: QDQ, weights per channel, after its own quant_pre_process.

Source: onnxruntime.ai, "Quantize ONNX models". Without VNNI its u8*s8 kernels add pairs of products with saturation; its
manual names two ways around that, reduced weight ranges and u8 weights. All that this CPU can run are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("onnxruntime", "onnx")

# Weights of u8 per channel have a zero point for each channel, which QLinearConv does not take: those are per tensor.
_TYPES = tuple(
    {"activation": activation, "weight": weight, "per_channel": weight == "QInt8", "reduce_range": reduce_range}
    for activation, weight in (("QUInt8", "QInt8"), ("QInt8", "QInt8"), ("QUInt8", "QUInt8"))
    for reduce_range in (False, True)
)
METHODS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    name: tuple({"calibrator": name, **types} for types in _TYPES) for name in ("MinMax", "Percentile", "Entropy")
}


def convert(
    settings: Sequence[Mapping[str, Any]], source: Path, feeds: Sequence[Mapping[str, Any]], folder: Path
) -> Iterator[Path]:
    """Yield one file for each of the settings; the first one pays for the calibration that all share."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._feeds = iter(feeds)

        def get_next(self) -> Mapping[str, Any] | None:
            return next(self._feeds, None)

    prepared, ranges = folder / "prepared.onnx", folder / "ranges.json"
    quant_pre_process(str(source), str(prepared))
    for number, chosen in enumerate(settings):
        target = folder / f"{number}.onnx"
        quantize_static(
            str(prepared),
            str(target),
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=chosen["per_channel"],
            reduce_range=chosen["reduce_range"],
            activation_type=QuantType[chosen["activation"]],
            weight_type=QuantType[chosen["weight"]],
            calibrate_method=CalibrationMethod[chosen["calibrator"]],
            calibration_cache_path=str(ranges),
        )
        yield target
