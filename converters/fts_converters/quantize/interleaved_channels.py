"""Channels that DepthToSpace puts side by side into one: neighbouring pixels of one picture, which share a range.

With a range of its own each would be calibrated on 1 / b^2 of the pixels, and clip what the others have seen.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fts_converters.quantize.graph_index import GraphIndex, attributes_of


def interleaved_channels(name: str, channels: int, index: GraphIndex) -> list[npt.NDArray[np.int64]]:
    """Groups of channels of a tensor that become one channel; none when no DepthToSpace reads it.

    Args:
        name: A tensor with `channels` channels on axis 1.
        channels: C.
        index: Of its graph.

    Source: onnx Operators.md, DepthToSpace: mode CRD takes the b^2 channels from c b^2 on, DCR every (C / b^2)-th.
    """
    reader = next((r for r in index.readers.get(name, ()) if r.op_type == "DepthToSpace"), None)
    if reader is None:
        return []
    attributes = attributes_of(reader)
    block = attributes["blocksize"]
    assert isinstance(block, int)
    mode = attributes.get("mode", b"DCR")
    places = np.arange(channels, dtype=np.int64)
    joined = places.reshape(-1, block * block) if mode == b"CRD" else places.reshape(block * block, -1).T
    return list(joined)
