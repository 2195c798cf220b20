"""Figures of a quantized file, remembered beside it: they depend on the file, the crops and this machine's kernels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import onnx
from onnx.shape_inference import InferenceError

from fts.engines.isa import available_isa
from fts.engines.onnxruntime_session import onnxruntime_version, open_session
from fts.errors import FtsError
from rivals.integer_share import IntegerShare, integer_share
from rivals.row import Row
from rivals.score import JUDGED_IN_YEARS, Array, Fidelity, fidelity
from rivals.source_net import SourceNet

HERE = Path(__file__).resolve().parent
ERROR_CHARACTERS = 300


def outputs_of(model: bytes, net: SourceNet, *, exact_u8s8: bool = False) -> list[Array]:
    """The judged output for every holdout crop."""
    session = open_session(model, exact_u8s8=exact_u8s8, what=net.name)
    position = session.output_names.index(net.output)
    crops = net.holdout_tensors
    return [session.run({net.input_name: crops[i : i + 1]})[position] for i in range(len(crops))]


def scored(row: Row, file: Path, net: SourceNet, references: Sequence[Array]) -> list[Row]:
    """The row with its figures, for both ways in which ONNX Runtime can add u8*s8."""
    return [scored_once(row, file, net, references, exact_u8s8=exact) for exact in (False, True)]


def scored_once(row: Row, file: Path, net: SourceNet, references: Sequence[Array], *, exact_u8s8: bool) -> Row:
    """The row with its figures.

    Args:
        row: Of the conversion.
        file: What it wrote.
        net: Where it came from.
        references: FP32 outputs for the holdout crops.
        exact_u8s8: Tell ONNX Runtime to add u8*s8 products without saturation, which a tool's user could do too.
    """
    row = replace(row, file=file, settings={**row.settings, "exact_u8s8": exact_u8s8})
    remembered = file.with_name(f"{file.name}.{_key(net, exact_u8s8)[:16]}.json")
    if remembered.exists():
        known = json.loads(remembered.read_text())
        quality = Fidelity(db=tuple(known["db"]), years=tuple(known["years"]))
        return replace(row, fidelity=quality, share=IntegerShare(**known["share"]))
    model = file.read_bytes()
    try:
        tests = outputs_of(model, net, exact_u8s8=exact_u8s8)
        quality = fidelity(references, tests, in_years=net.name in JUDGED_IN_YEARS)
        share = integer_share(onnx.load_model_from_string(model), net.macs)
    except (FtsError, ValueError, InferenceError) as cause:
        return replace(row, error=f"its file does not run: {' '.join(str(cause).split())[:ERROR_CHARACTERS]}")
    remembered.write_text(json.dumps({"db": quality.db, "years": quality.years, "share": asdict(share)}))
    return replace(row, fidelity=quality, share=share)


def _key(net: SourceNet, exact_u8s8: bool) -> str:
    code = [(HERE / name).read_text() for name in ("score.py", "integer_share.py")]
    parts = [net.digest, onnxruntime_version(), sorted(available_isa()), exact_u8s8, code]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
