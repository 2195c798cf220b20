"""Read arithmetic with numbers as a polynomial of given tensors, so that one rule covers every way of writing it.

    0.5 * x * (1 + g),   x * (0.5 * g + 0.5),   0.5 * x + (0.5 * x) * g      are all      0.5 x + 0.5 x g

Covers Add, Sub, Mul, Neg, Div by a number, and Pow by 2 or 3. Does *not* read a sum of two terms of the same powers:
they may cancel, and then the two ways round differently; nor numbers far from 1, where an intermediate value may
overflow in one way and not in the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.passes.graph_reading import constant, is_only_read_by, only_reader, rank, scalar

# Of each factor, relative: an exporter writes sqrt(2) with five digits or more.
RELATIVE_TOLERANCE = 1e-4
LEAST_FACTOR, GREATEST_FACTOR = 1e-4, 1e4
# Operators between a tensor and the variables; the longest spelling of GELU has 6.
MOST_OPERATORS = 8

# Powers of the variables, in their order, to the factor of that term.
Terms = Mapping[tuple[int, ...], float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Polynomial:
    """A tensor as a sum of terms.

    Attributes:
        terms: The factor of each product of powers; none is 0.
        nodes: The operators that were read, the tensor's own first.
    """

    terms: Terms
    nodes: tuple[gs.Node, ...]


def polynomial(tensor: gs.Tensor, variables: Sequence[gs.Tensor], depth: int = MOST_OPERATORS) -> Polynomial | None:
    """The tensor in terms of the variables, which have one shape; None when something else is in it."""
    for position, variable in enumerate(variables):
        if tensor is variable:
            powers = tuple(int(i == position) for i in range(len(variables)))
            return Polynomial(terms={powers: 1.0}, nodes=())
    number = _number(tensor, variables[0])
    if number is not None:
        return Polynomial(terms={(0,) * len(variables): number} if number else {}, nodes=())
    node = tensor.inputs[0] if len(tensor.inputs) == 1 else None
    if node is None or node.domain or not depth or node.op not in ("Add", "Sub", "Mul", "Div", "Neg", "Pow"):
        return None
    if node.op == "Pow":
        return _power(node, polynomial(node.inputs[0], variables, depth - 1))
    operands = [polynomial(operand, variables, depth - 1) for operand in node.inputs]
    read = [operand for operand in operands if operand is not None]
    if len(read) != len(operands):
        return None
    terms = _combined(node.op, [operand.terms for operand in read])
    if terms is None or not all(LEAST_FACTOR <= abs(f) <= GREATEST_FACTOR for f in terms.values()):
        return None
    return Polynomial(terms=terms, nodes=(node, *(n for operand in read for n in operand.nodes)))


def is_near(found: Polynomial | None, wanted: Terms) -> bool:
    """The same terms, with factors equal but for the exporter's digits."""
    return (
        found is not None
        and found.terms.keys() == wanted.keys()
        and all(abs(found.terms[k] - f) <= RELATIVE_TOLERANCE * abs(f) for k, f in wanted.items())
    )


def find_source(tensor: gs.Tensor, wanted: Terms) -> tuple[gs.Tensor, tuple[gs.Node, ...]] | None:
    """The tensor x of which another is the wanted polynomial, with the nodes between them; the nearest such x."""
    for candidate in _sources(tensor):
        found = polynomial(tensor, [candidate])
        if found is not None and is_near(found, wanted):
            return candidate, found.nodes
    return None


def linear_sources(tensor: gs.Tensor) -> Iterator[tuple[gs.Tensor, float, float, tuple[gs.Node, ...]]]:
    """(x, a, b, nodes) of each x with tensor = a x + b, the farthest first; the tensor itself is none."""
    for candidate in reversed(_sources(tensor)):
        found = polynomial(tensor, [candidate])
        if found is not None and candidate is not tensor and (1,) in found.terms and found.terms.keys() <= {(1,), (0,)}:
            yield candidate, found.terms[(1,)], found.terms.get((0,), 0.0), found.nodes


def find_reader(
    graph: gs.Graph, gate: gs.Tensor, others: Sequence[gs.Tensor], wanted: Terms
) -> tuple[gs.Node, tuple[gs.Node, ...]] | None:
    """The node behind a tensor that makes the wanted polynomial of (others..., gate), with the nodes between.

    Every value from the gate on is read by the next node alone, so that nobody misses what lies between.
    """
    value = gate
    for _ in range(MOST_OPERATORS):
        reader = only_reader(graph, value) if value is gate or len(value.outputs) == 1 else None
        if reader is None or reader.domain or len(reader.outputs) != 1:
            return None
        value = reader.outputs[0]
        found = polynomial(value, [*others, gate])
        if is_near(found, wanted):
            assert found is not None
            return reader, found.nodes
    return None


def are_inner(graph: gs.Graph, last: gs.Node, nodes: Sequence[gs.Node]) -> bool:
    """True when what the nodes make is read among them alone, but for what the last one makes."""
    return all(is_only_read_by(graph, t, list(nodes)) for n in nodes if n is not last for t in n.outputs)


def _sources(tensor: gs.Tensor) -> list[gs.Tensor]:
    """The tensor and what it is computed from by arithmetic, nearest first; without constants."""
    found: list[gs.Tensor] = []
    layer = [tensor]
    for _ in range(MOST_OPERATORS):
        found += [t for t in layer if not any(t is f for f in found)]
        makers = [t.inputs[0] for t in layer if len(t.inputs) == 1]
        makers = [n for n in makers if not n.domain and n.op in ("Add", "Sub", "Mul", "Div", "Neg", "Pow")]
        layer = [t for n in makers for t in n.inputs if constant(t) is None][: 2 * MOST_OPERATORS]
    return found


def _number(tensor: gs.Tensor, like: gs.Tensor) -> float | None:
    """A single floating-point constant that does not give the result more axes than the variable has."""
    value = constant(tensor)
    if value is None or value.size != 1 or value.dtype not in (np.float16, np.float32, np.float64):
        return None
    axes = rank(like)
    return float(value.reshape(()).item()) if value.ndim <= (axes or 0) else None


def _power(node: gs.Node, base: Polynomial | None) -> Polynomial | None:
    exponent = scalar(node.inputs[1])
    if base is None or len(base.terms) != 1 or exponent not in (2.0, 3.0):
        return None
    ((powers, factor),) = base.terms.items()
    times = int(exponent)
    return Polynomial(terms={tuple(p * times for p in powers): factor**times}, nodes=(node, *base.nodes))


def _combined(op: str, operands: Sequence[Terms]) -> Terms | None:
    if op == "Neg":
        return {powers: -factor for powers, factor in operands[0].items()}
    first, second = operands
    if op in ("Add", "Sub"):
        if first.keys() & second.keys():
            return None
        sign = 1.0 if op == "Add" else -1.0
        return {**first, **{powers: sign * factor for powers, factor in second.items()}}
    if op == "Div":
        if len(second) != 1 or any(any(powers) for powers in second):
            return None
        (divisor,) = second.values()
        return {powers: factor / divisor for powers, factor in first.items()}
    product: dict[tuple[int, ...], float] = {}
    for p, a in first.items():
        for q, b in second.items():
            powers = tuple(i + j for i, j in zip(p, q, strict=True))
            if powers in product:
                return None
            product[powers] = a * b
    return product
