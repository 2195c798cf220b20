"""Run a part of a net on kept tensors and score its outputs; in this process, or in one that obeys orders.

Orders of the process: open (a `Setting`), measure (a file with a part; it is removed).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fts.engines.onnxruntime_session import OrtSession, open_session
from fts.profile.worker import serve_process
from fts_calibration.metrics.budget import budget_from_json
from fts_calibration.metrics.evaluate import Arrays, scores_of_outputs
from fts_calibration.metrics.sample_values import SampleValues, values_from_scores
from fts_calibration.sensitivity.kept_tensors import KeptTensors


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all parts of one net have in common, in types that survive JSON.

    Attributes:
        folder: Of the kept tensors.
        names: Of them.
        budgets: As of `Measurement`, each as `Budget.to_json`.
        outputs: Outputs whose FP32 values are kept.
        peaks: Output name to its range in FP32.
        samples: How many.
        exact_u8s8: As of `open_session`.
        threads: Of each session.
    """

    folder: str
    names: Sequence[str]
    budgets: Mapping[str, Mapping[str, Any]]
    outputs: Sequence[str]
    peaks: Mapping[str, float]
    samples: int
    exact_u8s8: bool
    threads: int

    def to_json(self) -> dict[str, Any]:
        """Arguments of the order `open`."""
        return asdict(self)


class PartRunner:
    """Runs parts one after another."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._budgets = {name: budget_from_json(data) for name, data in setting.budgets.items()}
        self._kept = KeptTensors(Path(setting.folder), setting.names, setting.outputs, setting.samples)

    def values_of(self, part: bytes | None) -> SampleValues:
        """Metrics and noise of each output; an output that the part does not make is as it is in FP32.

        Raises:
            EngineError: onnxruntime refuses the part.
        """
        setting = self._setting
        session = None
        if part is not None:
            session = open_session(
                part, exact_u8s8=setting.exact_u8s8, threads=setting.threads, what="a part of the encoded graph"
            )
        scores = scores_of_outputs(self._outputs(session), setting.peaks, self._budgets)
        return values_from_scores(scores)

    def _outputs(self, session: OrtSession | None) -> Iterator[tuple[Arrays, Arrays]]:
        """(In FP32, with the part) of each sample."""
        for sample in range(self._setting.samples):
            reference = self._kept.reference(sample)
            outputs = dict(reference)
            if session is not None:
                found = session.run(self._kept.load(sample, session.input_names))
                outputs.update(zip(session.output_names, found, strict=True))
            yield reference, outputs


class _Orders:
    def __init__(self) -> None:
        self._runner: PartRunner | None = None

    def carry_out(self, order: dict[str, Any]) -> dict[str, Any]:
        arguments = dict(order)
        do = arguments.pop("do")
        if do == "open":
            self._runner = PartRunner(Setting(**arguments))
            return {}
        if do != "measure" or self._runner is None:
            raise ValueError(f"found order {do!r}, expected open, then measure")
        file = Path(arguments["file"])
        part = file.read_bytes()
        file.unlink()
        return {"values": self._runner.values_of(part)}


def main() -> None:
    """Serve on stdin and stdout."""
    serve_process(_Orders().carry_out)
