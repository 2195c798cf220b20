"""Graph passes, one a file; the order is `DEFAULT_PASSES`. Each says whether it changed anything, and what it left alone.

Requires static input shapes (`freeze`). Ensures: the same function, and inputs and outputs with their names, order, types
and shapes; `tests/generators` and `tests/fts_converters/passes/test_laws.py` hold every pass to that.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fts.errors import UsageError
from fts_converters.model import Model
from fts_converters.passes.cancel_repeated import cancel_repeated
from fts_converters.passes.contract import Pass, Refusal
from fts_converters.passes.drop_bias_before_norm import drop_bias_before_norm
from fts_converters.passes.eliminate_no_ops import eliminate_no_ops
from fts_converters.passes.fold_batchnorm import fold_batchnorm
from fts_converters.passes.fold_constants import fold_constants
from fts_converters.passes.fold_pad_into_conv import fold_pad_into_conv
from fts_converters.passes.fold_scale_and_shift import fold_scale_and_shift
from fts_converters.passes.fold_scale_into_next import fold_scale_into_next
from fts_converters.passes.inline_if import inline_if
from fts_converters.passes.join_parts import join_parts
from fts_converters.passes.merge_rearrangements import merge_rearrangements
from fts_converters.passes.merge_transposes import merge_transposes
from fts_converters.passes.name_nodes import name_nodes
from fts_converters.passes.recognise_activations import recognise_activations
from fts_converters.passes.recognise_instance_norm import recognise_instance_norm
from fts_converters.passes.recognise_layer_norm import recognise_layer_norm
from fts_converters.passes.recognise_matmul import recognise_matmul
from fts_converters.passes.recognise_pixel_shuffle import recognise_pixel_shuffle
from fts_converters.passes.remove_dead_code import remove_dead_code
from fts_converters.passes.resolve_sequences import resolve_sequences
from fts_converters.passes.share_equal_subexpressions import share_equal_subexpressions
from fts_converters.passes.unroll_loops import unroll_loops

DEFAULT_PASSES: tuple[tuple[str, Pass], ...] = (
    ("remove_dead_code", remove_dead_code),  # first: nothing below should look at what nobody reads
    ("fold_constants", fold_constants),  # Constant -> initializer, shape arithmetic and pad chains -> numbers
    ("inline_if", inline_if),  # conditions are numbers now
    ("unroll_loops", unroll_loops),  # so are trip counts; an If inside is inlined in the next round
    ("resolve_sequences", resolve_sequences),  # behind the loops that append to them
    ("merge_transposes", merge_transposes),  # before no-ops: two permutations may cancel
    ("merge_rearrangements", merge_rearrangements),  # what shapes tell beyond that
    ("eliminate_no_ops", eliminate_no_ops),  # before the patterns: an Identity inside one would hide it
    ("join_parts", join_parts),  # a Split and the Concat of all its outputs
    ("cancel_repeated", cancel_repeated),  # behind no-ops, which may stand between the two
    ("share_equal_subexpressions", share_equal_subexpressions),  # likewise a mean that is computed twice
    ("recognise_layer_norm", recognise_layer_norm),  # over the last axes; leaves spatial ones to the next
    ("recognise_instance_norm", recognise_instance_norm),
    ("recognise_activations", recognise_activations),
    ("recognise_pixel_shuffle", recognise_pixel_shuffle),
    ("recognise_matmul", recognise_matmul),
    ("fold_pad_into_conv", fold_pad_into_conv),
    ("fold_batchnorm", fold_batchnorm),
    ("fold_scale_and_shift", fold_scale_and_shift),  # behind BatchNorm, which may have stood in between
    ("fold_scale_into_next", fold_scale_into_next),  # what the weights in front could not take
    ("drop_bias_before_norm", drop_bias_before_norm),  # behind the folds, which make biases
    ("name_nodes", name_nodes),  # last: every node that is left has a unique name for plan and report
)
# A round may open the way for another (an If inlined, then folded); real nets need two, this is a stop, not a budget.
MOST_ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRecord:
    """What one pass did in all rounds together.

    Attributes:
        name: The pass.
        is_changed: It changed the graph in some round.
        nodes_removed: Nodes before minus nodes after, summed over the rounds; negative when it added some.
        refusals: Of the last round.
    """

    name: str
    is_changed: bool
    nodes_removed: int
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResult:
    """What cleaning did, pass by pass in the order of `DEFAULT_PASSES`."""

    is_changed: bool
    records: tuple[PassRecord, ...]


def check_pass_names(skip: Collection[str], passes: tuple[tuple[str, Pass], ...] = DEFAULT_PASSES) -> None:
    """Look at what is to be left out before any work is done.

    Raises:
        UsageError: `skip` names no pass; the message lists them.
    """
    unknown = sorted(set(skip) - {name for name, _ in passes})
    if unknown:
        raise UsageError(f"--skip-pass {unknown[0]}: there is no such pass; passes: {', '.join(n for n, _ in passes)}")


def clean(
    model: Model, passes: tuple[tuple[str, Pass], ...] = DEFAULT_PASSES, *, skip: Collection[str] = ()
) -> CleanResult:
    """Run the passes in order, again and again until none changes anything.

    Args:
        model: Changed in place.
        passes: Names and passes.
        skip: Names of passes to leave out.

    Raises:
        UsageError: `skip` names no pass.
    """
    check_pass_names(skip, passes)
    used = [(name, run) for name, run in passes if name not in skip]
    records: dict[str, PassRecord] = {}
    for _ in range(MOST_ROUNDS):
        is_round_changed = False
        for name, run in used:
            before = len(model.graph.nodes)
            result = run(model)
            old = records.get(name)
            records[name] = PassRecord(
                name=name,
                is_changed=result.is_changed or (old is not None and old.is_changed),
                nodes_removed=before - len(model.graph.nodes) + (old.nodes_removed if old else 0),
                refusals=result.refusals,
            )
            is_round_changed |= result.is_changed
        if not is_round_changed:
            break
    ordered = tuple(records.values())
    return CleanResult(is_changed=any(r.is_changed for r in ordered), records=ordered)
