"""What the epsilon of a norm allows in front of it.

y = (x - mean) / sqrt(var + eps). Scaled by s the input has variance s^2 var, and what comes out is larger by

    sqrt((var + eps) / (var + eps / s^2)) = 1 + eps / (2 var) * (1 - 1 / s^2) + ...

so a factor may stand where eps / (2 var) * |1 - 1 / s^2| <= TOLERANCE, with the least variance that was seen.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fts_converters.equalize.channel_groups import ChannelGroups
from fts_converters.equalize.factors import Exponents
from fts_converters.passes.contract import Refusal

# Half of what a cleaned net may differ by (1e-4 of the range, `check_equivalent`): two norms in a row may both use theirs.
TOLERANCE = 5e-5

Variances = Mapping[str, npt.NDArray[np.float64]]


def relative_change(epsilon: float, variance: npt.NDArray[np.float64], exponent: Exponents) -> npt.NDArray[np.float64]:
    """eps / (2 var) * |1 - 1 / s^2| with s = 2 ** exponent, element by element; 0 for s = 1, infinite for var = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        change = epsilon / (2.0 * variance) * np.abs(1.0 - np.exp2(-2.0 * exponent))
    return np.where(exponent == 0, 0.0, change)


def norm_refusals(groups: ChannelGroups, exponents: Exponents, variances: Variances) -> dict[int, Refusal]:
    """Groups whose factor a norm does not allow, with the reason.

    Args:
        groups: Of the graph.
        exponents: (count,) asked for.
        variances: Input of a norm to its least calibrated variances, (G,), as `NormInput.ids` counts them.
    """
    refused: dict[int, Refusal] = {}
    for norm in groups.norms:
        wanted = exponents[norm.ids]
        variance = variances.get(norm.tensor)
        if variance is None or len(variance) != len(norm.ids):
            reason = "its input has no calibrated variance, so nothing is known about what its epsilon does"
            refused.update({int(g): Refusal(node=norm.node, reason=reason) for g in norm.ids[wanted != 0]})
            continue
        change = relative_change(norm.epsilon, variance, wanted)
        for position in np.flatnonzero(change > TOLERANCE):
            reason = (
                f"channel {position}: a variance of {variance[position]:.3g} beside an epsilon of {norm.epsilon:.3g} "
                f"allows no factor of 2^{wanted[position]}: it would change the output by {change[position]:.2g}, "
                f"more than {TOLERANCE:g}"
            )
            refused.setdefault(int(norm.ids[position]), Refusal(node=norm.node, reason=reason))
    return refused
