"""Make input shapes static, and fold inputs with a declared value into the graph.

Stored shapes of other tensors are dropped and inferred anew, because a file's value infos may describe another size.
Does *not* guess: which shapes and values, is decided in `contract`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx
import onnx_graphsurgeon as gs
from onnx import shape_inference

from fts.errors import ShapeError
from fts_converters.model import Model


def freeze(model: Model, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, npt.NDArray[np.generic]]) -> None:
    """Change a model in place.

    Args:
        model: The model.
        shapes: Static shape of every input.
        values: Inputs that become constants.

    Raises:
        ShapeError: A node contradicts the shapes; the message names it.
    """
    for tensor in model.graph.tensors().values():
        if isinstance(tensor, gs.Variable):
            tensor.shape = None
    for value in model.graph.inputs:
        value.shape = list(shapes[value.name])
    for name, constant in values.items():
        value = next(i for i in model.graph.inputs if i.name == name)
        model.graph.inputs.remove(value)
        value.to_constant(np.array(constant))
    _check_shapes(model, shapes)


def _check_shapes(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> None:
    try:
        shape_inference.infer_shapes(model.to_light().proto, check_type=True, strict_mode=True, data_prop=True)
    except (shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        sizes = ", ".join(f"{n}={'x'.join(map(str, s))}" for n, s in shapes.items())
        lines = " ".join(line.strip() for line in str(error).splitlines() if line.strip())[:400]
        raise ShapeError(
            f"model {model.source!r} with input shapes {sizes}: a node contradicts them: {lines}. "
            "Use --shape with sizes the net can take, or export it with dynamic sizes"
        ) from error
