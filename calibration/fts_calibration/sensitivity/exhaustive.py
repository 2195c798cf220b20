"""The truth: the net is run with one unit after another in INT8, all else in FP32, and scored against FP32.

What stands in front of the unit is the same as in FP32, and so is what does not depend on it. Both are computed once a
sample and kept on disk (`kept_tensors.py`); for each unit only the rest of the net runs (`suffix.py`), in several processes
(`run_parts.py`). On a chain of equal layers that is half of the work. The scores are those of the whole net up to the
rounding of float32, which ONNX Runtime does otherwise around a cut; a value on the edge between two steps may fall to the
other side.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

import numpy as np
import numpy.typing as npt
import onnx

from fts.engines.threads import available_cpus
from fts_calibration.metrics.budget import Budget, Score, worst
from fts_calibration.metrics.sample_values import SampleValues, scores_from_values
from fts_calibration.sensitivity.float_net import FloatNet
from fts_calibration.sensitivity.kept_tensors import KeptTensors, keep_tensors, tensors_to_keep
from fts_calibration.sensitivity.measure_part import Setting
from fts_calibration.sensitivity.run_parts import Part, run_parts, usual_processes
from fts_calibration.sensitivity.suffix import suffix_of
from fts_calibration.sensitivity.table import SensitivityTable, UnitTensors, table_from_scores

Arrays = Mapping[str, npt.NDArray[np.generic]]
# Of all budgeted outputs, in the order of the budgets.
Scores = tuple[Score, ...]
METHOD = "exhaustive"


class Memory(Protocol):
    """Remembers what a part scored, by the sha256 of the part; the net and the samples are its own affair."""

    def get(self, digest: str) -> SampleValues | None:
        """What was put under a digest, or None."""

    def put(self, digest: str, values: SampleValues) -> None:
        """Remember."""


class References(Protocol):
    """FP32 outputs sample by sample, such as `ReferenceOutputs`."""

    @property
    def peaks(self) -> Mapping[str, float]:
        """Output name to its range over the split."""

    def __iter__(self) -> Iterator[Arrays]:
        """Outputs by name, one sample after another."""

    def __len__(self) -> int:
        """Number of samples."""


class Nothing:
    """A memory that keeps nothing."""

    def get(self, digest: str) -> SampleValues | None:
        """None."""
        return None

    def put(self, digest: str, values: SampleValues) -> None:
        """Forget."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurement:
    """A net, its units, and the samples on which they are measured: what every method of this folder is given.

    Attributes:
        net: The FP32 net.
        weights: SampleValues of its initializers that are external tensors, by name.
        units: In the graph's order.
        encode: Unit name to the net with this unit alone in integers, in the form that is asked about; float tensors and
            nodes keep their names and, in front of the unit, their values.
        feeds: Begins the samples anew at each call.
        references: FP32 outputs of these samples.
        budgets: Output name to its budget.
        exact_u8s8: As of `open_session`.
        memory: Of parts measured earlier.
    """

    net: FloatNet
    weights: Mapping[str, npt.NDArray[np.generic]]
    units: Sequence[UnitTensors]
    encode: Callable[[str], onnx.ModelProto]
    feeds: Callable[[], Iterable[Arrays]]
    references: References
    budgets: Mapping[str, Budget]
    exact_u8s8: bool = False
    memory: Memory = field(default_factory=Nothing)

    @property
    def has_user_metric(self) -> bool:
        """A function of the user's is among the metrics."""
        return any(budget.user is not None for budget in self.budgets.values())

    @property
    def outputs(self) -> tuple[str, ...]:
        """Outputs that the metrics read; a user's reads all."""
        return self.net.outputs if self.has_user_metric else tuple(self.budgets)


def measure_exhaustively(
    given: Measurement,
    *,
    processes: int | None = None,
    on_unit: Callable[[str, Score], None] = lambda unit, score: None,
) -> SensitivityTable:
    """Run the net once a unit and sample.

    Args:
        given: Net, units and samples.
        processes: How many work at a time; None for what CPUs and memory allow.
        on_unit: Told the score that decides of each unit, in their order.

    Returns:
        Scores of all outputs; a loss is how far the worst of them is below its budget.

    Raises:
        EngineError: onnxruntime refuses an encoded net, or a process died.
    """
    scores, passes = scores_alone(given, processes=processes, on_unit=lambda unit, found: on_unit(unit, worst(found)))
    return table_from_scores(METHOD, scores, samples=len(given.references), forward_passes=passes)


def scores_alone(
    given: Measurement, *, processes: int | None, on_unit: Callable[[str, Scores], None]
) -> tuple[dict[str, Scores], float]:
    """Scores of all outputs with each unit alone in INT8, in the order of the units; work in forward passes.

    Arguments and errors as of `measure_exhaustively`.
    """
    samples = len(given.references)
    if not given.units:
        return {}, 0.0
    tensors = tensors_to_keep(given.net, [unit.name for unit in given.units], samples)
    parts = _Parts(given, (*given.net.inputs, *tensors))
    scores: dict[str, Scores] = {}

    def tell() -> None:
        for unit in given.units[len(scores) :]:
            if unit.name not in parts.found:
                return
            scores[unit.name] = scores_from_values(parts.found[unit.name], given.budgets)
            on_unit(unit.name, scores[unit.name])

    first = next(parts, None)
    if first is not None:
        usual = usual_processes(len(given.units)) if processes is None else processes
        if given.has_user_metric:  # it may lie in the working folder, where no process starts
            usual = 1
        with keep_tensors(
            given.net, given.weights, tensors, given.feeds(), given.references, samples, given.outputs
        ) as kept:
            waiting = chain([first], parts)
            for found in run_parts(waiting, _setting(given, kept), processes=usual, folder=kept.folder):
                parts.measured(found)
                tell()
    tell()
    return scores, samples * (1 + parts.macs / given.net.total_macs)


def _setting(given: Measurement, kept: KeptTensors) -> Setting:
    return Setting(
        folder=str(kept.folder),
        names=kept.names,
        budgets={name: budget.to_json() for name, budget in given.budgets.items()},
        outputs=given.outputs,
        peaks={name: given.references.peaks[name] for name in given.outputs},
        samples=kept.samples,
        exact_u8s8=given.exact_u8s8,
        threads=available_cpus(),
    )


class _Parts(Iterator[Part]):
    """Parts that have to run, made one by one.

    Attributes:
        found: Unit name to what was measured, now or earlier.
        macs: What the parts made so far cost a sample, those measured earlier included.
    """

    def __init__(self, given: Measurement, kept: Sequence[str]) -> None:
        self.found: dict[str, SampleValues] = {}
        self.macs = 0
        self._given = given
        self._kept = kept
        self._units = iter(given.units)
        self._waiting: deque[tuple[str, str]] = deque()

    def __next__(self) -> Part:
        given = self._given
        for unit in self._units:
            suffix = suffix_of(given.encode(unit.name), given.net, unit, self._kept, given.outputs)
            self.macs += suffix.macs
            model = None if suffix.model is None else suffix.model.SerializeToString(deterministic=True)
            digest = hashlib.sha256(model or b"").hexdigest()
            known = given.memory.get(digest)
            if known is None:
                self._waiting.append((unit.name, digest))
                return Part(name=unit.name, model=model)
            self.found[unit.name] = known
        raise StopIteration

    def measured(self, values: SampleValues) -> None:
        """What came of the first part that has no values yet."""
        name, digest = self._waiting.popleft()
        self.found[name] = values
        self._given.memory.put(digest, values)
