"""Factors of channels: powers of two, by tensor and index, so that they can be kept, shown and applied to statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fts_converters.equalize.channel_groups import ChannelGroups
from fts_converters.passes.contract import Refusal

Exponents = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """s = 2 ** exponent for each channel.

    Attributes:
        exponents: Tensor name to one exponent an index of the axis that the tensor is scaled along (`ChannelGroups`).
            A tensor that is left out shares the factors of those it is tied to, or has factor 1.
        refusals: Why channels were left at factor 1 when the factors were chosen.
    """

    exponents: Mapping[str, tuple[int, ...]]
    refusals: tuple[Refusal, ...] = ()


def factors_of_groups(groups: ChannelGroups, exponents: Exponents, refusals: tuple[Refusal, ...] = ()) -> Factors:
    """Factors by tensor for one exponent a group, (count,); tensors that keep their scale are left out."""
    by_tensor = {name: exponents[c.ids] for name, c in groups.channels.items()}
    scaled = {name: tuple(int(e) for e in values) for name, values in by_tensor.items() if values.any()}
    return Factors(exponents=scaled, refusals=refusals)


def exponents_of_groups(groups: ChannelGroups, factors: Factors) -> tuple[Exponents, tuple[Refusal, ...]]:
    """(count,) exponent of each group, and a refusal for each reason why one that was asked for is 0.

    A group stays at 0 where it is blocked or where its channels were given different exponents. A tensor that the graph
    does not have, or does not have like that, is refused too.
    """
    exponents = np.zeros(groups.count, np.int64)
    refusals: list[Refusal] = []
    contradicted: set[int] = set()
    given: dict[int, int] = {}
    for name, wanted in factors.exponents.items():
        channels = groups.channels.get(name)
        if channels is None or len(channels.ids) != len(wanted):
            found = (
                "no tensor of this name can be scaled" if channels is None else f"it has {len(channels.ids)} channels"
            )
            refusals.append(Refusal(node=name, reason=f"factors for {len(wanted)} channels were given, but {found}"))
            continue
        for group, exponent in zip(channels.ids.tolist(), wanted, strict=True):
            if given.setdefault(group, exponent) != exponent and group not in contradicted:
                contradicted.add(group)
                refusals.append(
                    Refusal(node=name, reason="channels that must share a factor were given different ones")
                )
    for group, exponent in given.items():
        if exponent and group in groups.blocked:
            refusals.append(groups.blocked[group])
        elif group not in contradicted:
            exponents[group] = exponent
    return exponents, tuple(dict.fromkeys(refusals))
