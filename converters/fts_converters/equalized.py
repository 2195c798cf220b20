"""The same net with its channels equalized from the calibrated ranges: a second candidate for the search.

The factors are powers of two, so the ranges of the net before say those of the net after; only distributions of tensors
whose channels are scaled differently are counted again. Channels in front of a norm stay: what goes into one has a grid a
channel (`encode_qdq`) and needs none.
"""

from __future__ import annotations

from dataclasses import replace

from fts.vocabulary.device_profile import DeviceProfile
from fts.vocabulary.dialect import Dialect
from fts_calibration.statistics.collect import collect_statistics
from fts_calibration.statistics.statistics import Statistics
from fts_converters.check_equivalent import check_equivalent
from fts_converters.equalize.channel_groups import channel_groups
from fts_converters.equalize.factors_from_ranges import factors_from_ranges
from fts_converters.equalize.scaled_statistics import scaled_statistics
from fts_converters.model import Model, model_from_light
from fts_converters.passes.equalize import applicable_factors, equalize
from fts_converters.prepare import Prepared
from fts_converters.quantize.graph_index import GraphIndex
from fts_converters.quantize.units import find_candidates


def equalized(prepared: Prepared, profile: DeviceProfile, dialect: Dialect) -> Prepared | None:
    """Another lowered net with the statistics that belong to it; None when no channel gains by a factor.

    Raises:
        CleaningChangedTheNet: A defect of fts.
    """
    model = _copy(prepared)
    rounded = {name for unit in prepared.candidates.units.values() for name in unit.activations}
    groups = channel_groups(model)
    wanted = factors_from_ranges(groups, prepared.statistics, rounded=rounded, weight_steps=dialect.weight.qmax)
    factors = applicable_factors(model, wanted)
    if not factors.exponents:
        return None
    equalize(model, factors)
    net = model.to_light()
    index = GraphIndex(net.proto, net.weights)
    sample = next(iter(prepared.data.feeds("calibrate")))
    check_equivalent(prepared.net, index.net, sample, what=f"{model.source}, channels equalized")
    return replace(
        prepared,
        index=index,
        candidates=replace(find_candidates(index, profile), macs=prepared.candidates.macs),
        statistics=_with_histograms(scaled_statistics(prepared.statistics, factors, groups), index, prepared),
        is_equalized=True,
    )


def _with_histograms(scaled: Statistics, index: GraphIndex, prepared: Prepared) -> Statistics:
    """Distributions of tensors whose channels got different factors: the only ones that have to be seen again."""
    lost = [name for name in scaled.ranges if name in prepared.statistics.histograms and name not in scaled.histograms]
    if not lost:
        return scaled
    feeds = prepared.data.feeds("calibrate")
    seen = collect_statistics(index.model, feeds, lost, weights=index.weights)
    return replace(scaled, histograms={**scaled.histograms, **seen.histograms})


def _copy(prepared: Prepared) -> Model:
    source = prepared.model
    return model_from_light(prepared.index.net, source=source.source, source_sha256=source.source_sha256)
