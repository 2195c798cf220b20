"""onnxsim: `--static-quantize` with our calibration data, and its whole-graph and Quark-shaped forms.

The command line takes calibration data only from a public hub, so its functions are called: simplify, then what
`--static-quantize` calls (onnxsim.quantize_static). Its default leaves every convolution's output in float, which
ONNX Runtime runs in float; `full_graph` quantizes those too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("onnxsim", "onnxruntime", "onnx")

_CALIBRATORS = ("minmax", "percentile", "entropy", "mse", "auto")
METHODS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "--static-quantize": tuple({"form": "static", "method": m} for m in ("minmax", "entropy")),
    **{
        f"full graph, {m}": tuple({"form": "full_graph", "method": m, "cle": cle} for cle in (False, True))
        for m in _CALIBRATORS
    },
    "full_qdq": tuple(
        {"form": "full_qdq", "method": m, "reduce_range": r} for m in ("minmax", "percentile") for r in (False, True)
    ),
    **{
        f"Quark form, {'+'.join(steps) or 'plain'}": tuple(
            {"form": "quark", "preset": "U8S8_AAWS", "steps": list(steps), "reduce_range": r} for r in (False, True)
        )
        for steps in ((), ("BiasCorrection",), ("CLE", "BiasCorrection"), ("CLE", "AdaRound"), ("CLE", "AdaQuant"))
    },
}


def convert(
    settings: Sequence[Mapping[str, Any]], source: Path, feeds: Sequence[Mapping[str, Any]], folder: Path
) -> Iterator[Path]:
    """Yield one file for each of the settings."""
    import onnx
    import onnxsim

    simplified, _ = onnxsim.simplify(onnx.load(str(source)))
    for number, chosen in enumerate(settings):
        target = folder / f"{number}.onnx"
        if chosen["form"] == "quark":
            _quark(chosen, simplified, feeds, folder, target)
        else:
            onnx.save(_quantized(chosen, simplified, feeds), str(target))
        yield target


def _quantized(chosen: Mapping[str, Any], model: Any, feeds: Sequence[Mapping[str, Any]]) -> Any:
    import onnxsim
    from onnxsim.full_qdq import quantize_full_qdq

    if chosen["form"] == "full_qdq":
        return quantize_full_qdq(model, feeds, method=chosen["method"], reduce_range=chosen["reduce_range"])
    is_full = chosen["form"] == "full_graph"
    if chosen.get("cle"):
        model = onnxsim.cross_layer_equalize(model)
    return onnxsim.quantize_static(model, feeds, method=chosen["method"], full_graph=is_full)


def _quark(
    chosen: Mapping[str, Any], model: Any, feeds: Sequence[Mapping[str, Any]], folder: Path, target: Path
) -> None:
    import onnx
    from onnxsim import quark_compat

    class Reader:
        def __init__(self) -> None:
            self._feeds = iter(feeds)

        def get_next(self) -> Mapping[str, Any] | None:
            return next(self._feeds, None)

    simplified = folder / "simplified.onnx"
    onnx.save(model, str(simplified))
    config = quark_compat.QConfig.get_default_config(chosen["preset"])
    config.extra_options = {**(config.extra_options or {}), "PerChannel": True, "ReduceRange": chosen["reduce_range"]}
    config.algo_config = [getattr(quark_compat, f"{step}Config")() for step in chosen["steps"]]
    quark_compat.ModelQuantizer(config).quantize_model(str(simplified), str(target), Reader())
