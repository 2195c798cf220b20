"""Operators whose float outputs are elements of their inputs (or constants), so that they never round.

Two uses: `tolerance` adds no noise behind them, and the generator feeds what jumps (Round, Greater, ArgMax, indices)
from chains of these alone, because behind a rounding operator a legitimate rewrite may move a value over the step.
"""

from __future__ import annotations

_NAMES = """
Identity Reshape Flatten Squeeze Unsqueeze Transpose Concat Split Slice Gather GatherElements GatherND ScatterND
ScatterElements Expand Tile Pad DepthToSpace SpaceToDepth MaxPool GlobalMaxPool Dropout Constant ConstantOfShape
Relu Abs Neg Max Min Clip Where TopK ReduceMax ReduceMin Floor Ceil Round Sign Trilu OneHot EyeLike Compress
ReverseSequence Upsample SequenceEmpty SequenceConstruct SequenceInsert SequenceErase SequenceAt SequenceLength
SplitToSequence ConcatFromSequence
"""
EXACT_OPS = frozenset(_NAMES.split())
