"""Einsum becomes MatMul, or Mul and ReduceSum where no letter is left to multiply over.

Operands are taken pairwise from the left. Letters of a pair are sorted by where they occur:

    batch: in both, still needed    left, right: in one, still needed    sum: in both, needed no more
    (batch, left, sum) x (batch, sum, right) -> MatMul -> (batch, left, right)

A letter twice in one operand is its diagonal: every (n + 1)-th of n * n elements. A letter that only one operand has and
nobody needs is summed at once. An ellipsis stands for letters of its own, aligned at the right; an axis of 1 against
another size is dropped, which is what broadcasting says. Needs every letter with one size.

Source: Einsum of the ONNX operator specification; numpy.einsum.
"""

from __future__ import annotations

from collections import Counter
from math import prod

import numpy as np
import onnx_graphsurgeon as gs

from fts_converters.lower.each_wanted import ALL_NODES, Choice, lower_each
from fts_converters.lower.new_nodes import NewNodes
from fts_converters.model import Model
from fts_converters.passes.contract import PassResult

Labels = tuple[str, ...]
ELLIPSIS = "..."


def einsum_to_matmul(model: Model, choice: Choice = ALL_NODES) -> PassResult:
    """Replaces every wanted Einsum."""
    return lower_each(model, ("Einsum",), _replace, choice)


def is_matrix_product(node: gs.Node) -> bool:
    """Two operands with a letter to sum over and one that only one of them has: a MatMul and no more."""
    left, arrow, right = str(node.attrs["equation"]).replace(" ", "").partition("->")
    terms = [set(t.replace(ELLIPSIS, "")) for t in left.split(",")]
    if len(terms) != 2 or any(len(t) != len(set(t)) for t in left.replace(ELLIPSIS, "").split(",")):
        return False
    shared = terms[0] & terms[1]
    return bool(shared - set(right) if arrow else shared) and terms[0] != terms[1]


def _replace(nodes: NewNodes, node: gs.Node) -> gs.Tensor | str:
    shapes = [nodes.shape(t) for t in node.inputs]
    terms, output = _labels(str(node.attrs["equation"]), [len(s) for s in shapes])
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, n in zip(term, shape, strict=True):
            if n != 1 and sizes.setdefault(label, n) != n:
                return f"the letter {label} has the sizes {sizes[label]} and {n}"
    values = [_without_repeats(nodes, x, term, sizes) for x, term in zip(node.inputs, terms, strict=True)]
    value, labels = values[0]
    for i, (other, other_labels) in enumerate(values[1:], start=1):
        needed = set(output).union(*(later for _, later in values[i + 1 :]))
        value, labels = _contract(nodes, (value, labels), (other, other_labels), needed)
    value, labels = _summed(nodes, value, labels, set(output))
    value = nodes.transpose(value, [labels.index(n) for n in output if n in labels])
    return nodes.reshape(value, nodes.shape(node.outputs[0]))


def _labels(equation: str, ranks: list[int]) -> tuple[list[Labels], Labels]:
    """Labels of each operand and of the output; those of an ellipsis are "...0", "...1" from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    spread = [r - len(t.replace(ELLIPSIS, "")) if ELLIPSIS in t else 0 for t, r in zip(texts, ranks, strict=True)]
    terms = [_expanded(t, n) for t, n in zip(texts, spread, strict=True)]
    if arrow:
        return terms, _expanded(right, max(spread))
    counts = Counter(left.replace(ELLIPSIS, "").replace(",", ""))
    once = "".join(sorted(c for c, n in counts.items() if n == 1))
    return terms, _expanded((ELLIPSIS if ELLIPSIS in left else "") + once, max(spread))


def _expanded(text: str, spread: int) -> Labels:
    before, dots, after = text.partition(ELLIPSIS)
    middle = [f"{ELLIPSIS}{i}" for i in reversed(range(spread))] if dots else []
    return (*before, *middle, *after)


def _without_repeats(nodes: NewNodes, x: gs.Tensor, labels: Labels, sizes: dict[str, int]) -> tuple[gs.Tensor, Labels]:
    """Diagonals taken, axes of 1 dropped where the letter has another size elsewhere."""
    shape = nodes.shape(x)
    kept = [i for i, (label, n) in enumerate(zip(labels, shape, strict=True)) if n != 1 or label not in sizes]
    labels = tuple(labels[i] for i in kept)
    x = nodes.reshape(x, [shape[i] for i in kept])
    while len(set(labels)) < len(labels):
        label = next(c for c, n in Counter(labels).items() if n > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        rest = [i for i in range(len(labels)) if i not in (first, second)]
        x = nodes.transpose(x, [*rest, first, second])
        *outer, n, _ = nodes.shape(x)
        x = nodes.gather(nodes.reshape(x, [*outer, n * n]), np.arange(n) * (n + 1), axis=len(outer))
        labels = (*(labels[i] for i in rest), label)
    return x, labels


def _summed(nodes: NewNodes, x: gs.Tensor, labels: Labels, needed: set[str]) -> tuple[gs.Tensor, Labels]:
    axes = [i for i, label in enumerate(labels) if label not in needed]
    return nodes.reduce("ReduceSum", x, axes, keepdims=False), tuple(n for n in labels if n in needed)


def _contract(
    nodes: NewNodes, a: tuple[gs.Tensor, Labels], b: tuple[gs.Tensor, Labels], needed: set[str]
) -> tuple[gs.Tensor, Labels]:
    """One operand of two."""
    x, x_labels = _summed(nodes, *a, needed | set(b[1]))
    y, y_labels = _summed(nodes, *b, needed | set(x_labels))
    size = dict(zip((*x_labels, *y_labels), (*nodes.shape(x), *nodes.shape(y)), strict=True))
    batch = [n for n in x_labels if n in y_labels and n in needed]
    over = [n for n in x_labels if n in y_labels and n not in needed]
    left = [n for n in x_labels if n not in y_labels]
    right = [n for n in y_labels if n not in x_labels]
    x = nodes.transpose(x, [x_labels.index(n) for n in (*batch, *left, *over)])
    y = nodes.transpose(y, [y_labels.index(n) for n in (*batch, *over, *right)])
    shape = [size[n] for n in (*batch, *left, *right)]
    lead = [prod(size[n] for n in batch)] if batch else []
    m, k, n = (prod(size[i] for i in group) for group in (left, over, right))
    if over and (left or right):
        product: gs.Tensor = nodes.matmul(nodes.reshape(x, [*lead, m, k]), nodes.reshape(y, [*lead, k, n]))
    elif over:
        product = nodes.binary("Mul", nodes.reshape(x, [*lead, k]), nodes.reshape(y, [*lead, k]))
        product = nodes.reduce("ReduceSum", product, [len(lead)], keepdims=False)
    else:
        product = nodes.binary("Mul", nodes.reshape(x, [*lead, m, 1]), nodes.reshape(y, [*lead, 1, n]))
    return nodes.reshape(product, shape), (*batch, *left, *right)
