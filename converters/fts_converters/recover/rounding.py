"""Rung 2: weight scales and roundings by each layer's output error, and the biases that belong to them.

Each layer is fitted to its output in the float net from what the quantized net sends it, so that a layer also makes up for
what those in front of it broke, as far as its weights can. Where a bias takes the mean, or a norm behind takes it out, the
error counts without its mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from fts_calibration.recovery.fit_weights import Float64Array, fit_weights, target_weights
from fts_calibration.recovery.moments import Moments
from fts_calibration.recovery.weight_update import WeightUpdate
from fts_converters.quantize.units import Unit
from fts_converters.quantize.weight_grid import within_pairs
from fts_converters.recover.bias_correction import ROWS, mean_bias, with_biases
from fts_converters.recover.fit_in_order import FittedUnit, fit_in_order
from fts_converters.recover.layers import layer_of
from fts_converters.recover.planned_net import PlannedNet

# H of 5000 products has 200 MB in double precision; its solution takes the cube of it in time.
MOST_PRODUCTS = 5000
# Rows for each product, so that H is well determined.
ROWS_A_PRODUCT = 8


def fitted_roundings(net: PlannedNet, start: WeightUpdate, on_skip: Callable[[str, str], None]) -> WeightUpdate:
    """`start` with other weights, scales and biases.

    Args:
        net: What is quantized how.
        start: What units that cannot be fitted keep.
        on_skip: Told the unit and the reason why its weights stay as they are.
    """
    shared = Counter(unit.weight for unit in net.weighted_units())
    wanted = []
    for unit in net.weighted_units():
        layer = layer_of(unit, net.index)
        if isinstance(layer, str):
            on_skip(unit.name, layer)
            continue
        products = layer.matrix_from_weight(net.index.array(unit.weight)).shape[2]
        reason = _why_not(net, unit, products, shared[unit.weight])
        if reason:
            on_skip(unit.name, reason)
        if not reason or net.bias_matters(unit):
            rows = ROWS if reason else max(ROWS, ROWS_A_PRODUCT * products)
            wanted.append(FittedUnit(unit=unit, layer=layer, rows=rows, with_products=not reason))

    def fit(fitted: FittedUnit, moments: Moments, update: WeightUpdate) -> WeightUpdate:
        found = _fitted(net, fitted, moments) if fitted.with_products else WeightUpdate.NONE
        if net.bias_matters(fitted.unit):
            bias = mean_bias(net, fitted, moments, update.joined(found))
            found = found.joined(WeightUpdate(biases={fitted.unit.name: bias}))
        return found

    begin = with_biases(net, wanted, start)
    return fit_in_order(wanted, net.index, net.encode, net.feeds, fit, begin, exact_u8s8=net.exact_u8s8)


def _why_not(net: PlannedNet, unit: Unit, products: int, units_with_weight: int) -> str:
    if units_with_weight > 1:
        return "its weight is shared with another unit, which reads other inputs"
    if not net.dialect.weight.symmetric:
        return "its weight grid is not symmetric"
    if products > MOST_PRODUCTS:
        return f"it sums {products} products, more than {MOST_PRODUCTS}"
    return ""


def _fitted(net: PlannedNet, fitted: FittedUnit, moments: Moments) -> WeightUpdate:
    unit, layer = fitted.unit, fitted.layer
    own = layer.matrix_from_weight(net.index.array(unit.weight)).astype(np.float64)
    assert moments.xx is not None
    assert moments.yx is not None
    # MatMul alone has no bias: its error counts as it is. Behind all others a bias or a norm deals with the mean.
    xx, yx = (moments.xx, moments.yx) if unit.op_type == "MatMul" else moments.centred()
    form = net.weight_form(unit)

    def project(integers: Float64Array) -> Float64Array:
        if form.pair_sum_limit is None:
            return integers
        weight = layer.weight_from_matrix(integers.astype(np.float32))
        inside = within_pairs(weight, unit.weight_axis, form.pair_sum_limit).astype(np.float32)
        return layer.matrix_from_weight(inside).astype(np.float64)

    target = target_weights(own, xx, yx, moments.count)
    found = fit_weights(target, xx, moments.count, form.most, project)
    weight = found.integers * found.scales.astype(np.float64)[..., None]
    return WeightUpdate(
        weights={unit.weight: layer.weight_from_matrix(weight.astype(np.float32))},
        weight_scales={unit.weight: found.scales.reshape(-1)},
    )
