"""Rung 1: biases under which each channel's mean in the quantized net is that of the float net.

    b = E[y] - W E[x]        y: the layer's output in the float net, W: weights as rounded, x: what the quantized net sends

over the calibrate split. The mean is that in front of the unit's activation. Nothing is done where a norm behind the unit
takes the mean out again, and MatMul has no bias.

Source: Nagel et al. 2019, arXiv:1906.04721, section 4.2; means are measured, not derived (its appendix D).
"""

from __future__ import annotations

import numpy as np

from fts_calibration.recovery.moments import Moments
from fts_calibration.recovery.weight_update import FloatArray, WeightUpdate
from fts_converters.recover.fit_in_order import FittedUnit, fit_in_order
from fts_converters.recover.layers import layer_of
from fts_converters.recover.planned_net import PlannedNet

# Rows a unit, over all samples. The mean of y - W x over n rows is off by its deviation / sqrt(n): below 1 %.
ROWS = 16384


def corrected_biases(net: PlannedNet, start: WeightUpdate) -> WeightUpdate:
    """`start` with the biases above, for its weights.

    Args:
        net: What is quantized how.
        start: Weights to keep.
    """
    wanted = []
    for unit in net.weighted_units():
        layer = layer_of(unit, net.index)
        if not isinstance(layer, str) and net.bias_matters(unit):
            wanted.append(FittedUnit(unit=unit, layer=layer, rows=ROWS, with_products=False))
    return fit_in_order(
        wanted,
        net.index,
        net.encode,
        net.feeds,
        lambda fitted, moments, update: WeightUpdate(
            biases={fitted.unit.name: mean_bias(net, fitted, moments, update)}
        ),
        with_biases(net, wanted, start),
        exact_u8s8=net.exact_u8s8,
    )


def mean_bias(net: PlannedNet, fitted: FittedUnit, moments: Moments, update: WeightUpdate) -> FloatArray:
    """The bias above, (C,), for the weights of an update."""
    weight = fitted.layer.matrix_from_weight(net.rounded_weight(fitted.unit, update)).astype(np.float64)
    bias = moments.y_mean - np.einsum("gmk,gk->gm", weight, moments.x_mean)
    return np.asarray(bias.reshape(-1), np.float32)


def with_biases(net: PlannedNet, wanted: list[FittedUnit], start: WeightUpdate) -> WeightUpdate:
    """`start` with a bias for each unit that will get one, so that the encoded nodes are the same from the start."""
    own = {w.unit.name: net.own_bias(w.unit) for w in wanted if net.bias_matters(w.unit)}
    return WeightUpdate(biases=own).joined(start)
