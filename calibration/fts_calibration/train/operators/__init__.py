"""ONNX operators as torch functions, one family a file: a builder reads a node's attributes and returns what runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fts_calibration.train.operators import (
    activation,
    arithmetic,
    convolution,
    indexing,
    linear,
    normalization,
    padding,
    pooling,
    rearrangement,
    reduction,
    resize,
    shape,
)
from fts_calibration.train.operators.node import Node, Run

OPERATORS: Mapping[str, Callable[[Node], Run]] = {
    **convolution.OPERATORS,
    **linear.OPERATORS,
    **normalization.OPERATORS,
    **activation.OPERATORS,
    **arithmetic.OPERATORS,
    **reduction.OPERATORS,
    **pooling.OPERATORS,
    **padding.OPERATORS,
    **resize.OPERATORS,
    **rearrangement.OPERATORS,
    **indexing.OPERATORS,
    **shape.OPERATORS,
}
