"""Sparse constants are filled in: engines take them as dense tensors anyway, and the libraries used here lose them.

Source: onnx.proto, SparseTensorProto: indices of shape (nnz,) count elements in row-major order, (nnz, rank) are
coordinates.
"""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import numpy_helper

from fts.errors import ModelError
from fts_converters.tensor_types import graphs

# As `contract.MOST_ELEMENTS`: 2 GiB of float32.
MOST_ELEMENTS = 2**29


def fill_in_sparse_constants(model: onnx.ModelProto) -> None:
    """Replaces sparse initializers and `Constant(sparse_value=...)`.

    Raises:
        ModelError: More than MOST_ELEMENTS elements.
    """
    for graph in graphs(model.graph):
        for sparse in graph.sparse_initializer:
            graph.initializer.append(_dense(sparse, sparse.values.name))
        del graph.sparse_initializer[:]
        for node in graph.node:
            for attribute in [a for a in node.attribute if a.name == "sparse_value" and node.op_type == "Constant"]:
                node.attribute.remove(attribute)
                dense = _dense(attribute.sparse_tensor, node.output[0])
                node.attribute.append(onnx.helper.make_attribute("value", dense))


def _dense(sparse: onnx.SparseTensorProto, name: str) -> onnx.TensorProto:
    shape = tuple(sparse.dims)
    if math.prod(shape) > MOST_ELEMENTS:
        raise ModelError(f"tensor {name!r}: sparse, of {math.prod(shape)} elements, expected at most {MOST_ELEMENTS}")
    values = numpy_helper.to_array(sparse.values)
    places = numpy_helper.to_array(sparse.indices)
    filled = np.zeros(shape, values.dtype)
    try:
        if places.ndim == 1:
            filled.reshape(-1)[places] = values
        else:
            filled[tuple(places.T)] = values
    except (IndexError, ValueError) as error:
        raise ModelError(f"tensor {name!r}: sparse, and its indices do not fit its shape {shape}: {error}") from error
    return numpy_helper.from_array(filled, name)
