"""Try plans: encode one, run it on the select split, score it against FP32. Remembered by content."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from fts.engines.onnxruntime_session import onnxruntime_version, open_session
from fts.vocabulary.dialect import Dialect
from fts.vocabulary.plan import Plan
from fts_calibration.metrics.budget import Budget, Score
from fts_calibration.metrics.evaluate import evaluate
from fts_calibration.metrics.reference_outputs import ReferenceOutputs
from fts_calibration.metrics.sample_values import SampleValues, scores_from_values, values_from_scores
from fts_calibration.recovery.weight_update import WeightUpdate
from fts_calibration.sensitivity.exhaustive import Measurement
from fts_calibration.sensitivity.float_net import FloatNet
from fts_calibration.sensitivity.table import UnitTensors
from fts_calibration.statistics.statistics import Statistics
from fts_converters.cache import StageCache
from fts_converters.light_proto import serialized
from fts_converters.quantize.encode_qdq import encode_qdq
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.units import Candidates, macs_by_node

Feed = Mapping[str, npt.NDArray[np.generic]]


class Trials:
    """Scores of plans on one split; make it with `open_trials`."""

    def __init__(
        self,
        *,
        index: GraphIndex,
        candidates: Candidates,
        statistics: Statistics,
        dialect: Dialect,
        feeds: Callable[[], Iterable[Feed]],
        split_digest: str,
        budgets: Mapping[str, Budget],
        exact_u8s8: bool,
        cache: StageCache,
        update: WeightUpdate = WeightUpdate.NONE,
    ) -> None:
        self._index = index
        self._candidates = candidates
        self._statistics = statistics
        self._update = update
        self._dialect = dialect
        self._feeds = feeds
        self._budgets = budgets
        self._exact_u8s8 = exact_u8s8
        self._cache = cache
        self._references: ReferenceOutputs | None = None
        self._key = {
            "stage": "score",
            "float_net": index.net.sha256(),
            "split": split_digest,
            "metrics": {n: b.measured_by() for n, b in budgets.items()},
            "exact_u8s8": exact_u8s8,
            "onnxruntime": onnxruntime_version(),
        }

    @property
    def exact_u8s8(self) -> bool:
        """Plans are run without 16-bit saturation."""
        return self._exact_u8s8

    def scores(
        self, plan: Plan, statistics: Statistics | None = None, update: WeightUpdate | None = None
    ) -> tuple[Score, ...]:
        """Scores of all budgeted outputs under a plan; under other ranges or another update than the usual ones if given."""
        ranges = self._statistics if statistics is None else statistics
        given = self._update if update is None else update
        return self.scores_of(encode_qdq(self._index, self._candidates, plan, ranges, self._dialect, given).model)

    def scores_of(self, encoded: onnx.ModelProto) -> tuple[Score, ...]:
        """Scores of all budgeted outputs of an encoded graph."""
        data = serialized(encoded, "the encoded graph")
        key = {**self._key, "encoded": hashlib.sha256(data).hexdigest()}
        known = self._cache.get(key)
        if known is None:
            known = values_from_scores(self._run(data))
            self._cache.put(key, known)
        return scores_from_values(known, self._budgets)

    def measurement(self, units: Sequence[str], plan_of: Callable[[str], Plan]) -> Measurement:
        """What methods of sensitivity measure units with, under the usual ranges and update; good until `close`.

        What a part scored is remembered by the part itself, which holds all that is new in it: form, grids and updated
        weights of its unit. The tensors that it begins with are those of the FP32 net, since an update changes no operator
        in float.

        Args:
            units: Names, in the graph's order.
            plan_of: Unit name to the plan with this unit alone at the level that is asked about.
        """
        found = [self._candidates.units[name] for name in units]

        def encode(unit: str) -> onnx.ModelProto:
            plan = plan_of(unit)
            return encode_qdq(self._index, self._candidates, plan, self._statistics, self._dialect, self._update).model

        return Measurement(
            net=FloatNet(self._index.model, macs_by_node(self._index)),
            weights=self._index.weights,
            units=[UnitTensors(name=u.name, inputs=u.activations, output=u.output) for u in found],
            encode=encode,
            feeds=self._feeds,
            references=self._float_outputs(),
            budgets=self._budgets,
            exact_u8s8=self._exact_u8s8,
            memory=_PartScores(self._cache, {**self._key, "stage": "score of a part"}),
        )

    def close(self) -> None:
        """Remove the FP32 outputs kept on disk."""
        if self._references is not None:
            self._references.__exit__(None, None, None)

    def _float_outputs(self) -> ReferenceOutputs:
        if self._references is None:
            net = self._index.net
            float_session = open_session(net.proto.SerializeToString(), weights=net.weights)
            self._references = ReferenceOutputs(float_session, self._feeds())
        return self._references

    def _run(self, encoded: bytes) -> tuple[Score, ...]:
        references = self._float_outputs()
        session = open_session(encoded, exact_u8s8=self._exact_u8s8, what="the encoded graph")

        def run(feed: Feed) -> Feed:
            return dict(zip(session.output_names, session.run(feed), strict=True))

        return evaluate(run, self._feeds(), references, self._budgets)


class _PartScores:
    """Scores of parts of encoded graphs in the cache of stages."""

    def __init__(self, cache: StageCache, key: Mapping[str, Any]) -> None:
        self._cache = cache
        self._key = key

    def get(self, digest: str) -> SampleValues | None:
        return self._cache.get({**self._key, "part": digest})

    def put(self, digest: str, values: SampleValues) -> None:
        self._cache.put({**self._key, "part": digest}, values)


@contextmanager
def open_trials(trials: Trials) -> Iterator[Trials]:
    """Close the trials at the end, whatever happens."""
    try:
        yield trials
    finally:
        trials.close()
