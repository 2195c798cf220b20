"""What onnx's version converter (1.23) gets wrong between opsets 7 and 13, one operator a file.

Found by `tests/generators/old_opsets.py`: each of its nets is run before and after. A step of `BEFORE` rewrites old
forms into others of the same opset that the converter takes rightly; one of `AFTER` repairs what it made.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from fts_converters.fresh_names import FreshNames
from fts_converters.opset_steps.batch_norm_spatial import write_out_batch_norm_per_element
from fts_converters.opset_steps.dropout_mask import drop_dropout_masks
from fts_converters.opset_steps.hardmax import flatten_around_hardmax
from fts_converters.opset_steps.operand_types import give_operands_the_type_of_the_data
from fts_converters.opset_steps.resize_coordinates import restore_old_coordinates
from fts_converters.opset_steps.scan_batch import write_out_scan_batch
from fts_converters.tensor_types import Scope

# Graph, names, opset of the file. Changes the graph in place.
Step = Callable[[Scope, FreshNames, int], None]

BEFORE: tuple[Step, ...] = (
    drop_dropout_masks,  # mask: of the data's type in opset 7, undefined until 12
    flatten_around_hardmax,  # relabelled, though the axes it works on changed
    write_out_batch_norm_per_element,  # spatial=0: refused
    write_out_scan_batch,  # opset 8's batch axis: taken off the graph's inputs instead
)
AFTER: tuple[Step, ...] = (
    restore_old_coordinates,  # Upsample and Resize 10: given the coordinates of opset 11
    give_operands_the_type_of_the_data,  # Clip and Pad: float32 numbers beside data of another type
)


def run_steps(steps: tuple[Step, ...], model: onnx.ModelProto, scopes: list[Scope], opset: int) -> None:
    """Run steps on every graph of a net, in place."""
    names = FreshNames(model.graph)
    for step in steps:
        for scope in scopes:
            step(scope, names, opset)
