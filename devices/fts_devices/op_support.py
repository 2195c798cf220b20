"""What an engine's documents say about an operator: an answer for one node of an ONNX net, with the attribute it hangs on.

One file an engine in `engine_ops/`: the operators it takes, each with conditions on the node and the source they were read
in. Necessary, not sufficient: a vendor's compiler still looks at the concrete node. Only what a float net shows is held
here; rules about scales and zero points belong to the dialect.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from onnx import defs, helper

from fts.errors import UsageError

Subject = Literal[
    "attribute",  # value, or every value of a list
    "rank",  # axes of the data: the first input that is no constant
    "output_rank",
    "spatial_rank",  # axes of the data behind batch and channel
    "input_count",  # inputs that are given
    "output_count",
    "constant",  # the inputs named must be constants where they are given
    "constant_value",  # every element of the inputs named, where they are constants
    "absent",  # the inputs named must not be given
    "axis_from_end",  # attribute axis, counted from the end: -1 is the last
    "kernel",  # spatial sizes of the weight
    "size",  # size of one axis of the inputs named
    "output_size",  # size of the first output along the attribute `name`
    "outer_scale",  # output size / input size of batch and channel
    "spatial_scale",  # the same behind them
    "einsum",  # "plain", or "ellipsis", "diagonal" where the equation has them
]
# Inputs that a condition may name, as people know them.
INPUT_NAMES: Mapping[str, tuple[str, ...]] = {
    "Resize": ("X", "roi", "scales", "sizes"),
    "Pad": ("data", "pads", "constant_value", "axes"),
    "Slice": ("data", "starts", "ends", "axes", "steps"),
    "Clip": ("input", "min", "max"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What a condition may look at.

    Attributes:
        op_type: ONNX operator.
        domain: "" for the default one.
        attributes: With the defaults of the operator filled in; text as str, lists as tuples.
        input_shapes: Static shape of each input; None when it is not given or not known.
        output_shapes: Likewise.
        given: Which inputs are given.
        constants: Values of the inputs that are constants, by position.
        dtypes: numpy names of the types of all float inputs and outputs that are known.
    """

    op_type: str
    domain: str
    attributes: Mapping[str, Any]
    input_shapes: tuple[tuple[int, ...] | None, ...]
    output_shapes: tuple[tuple[int, ...] | None, ...]
    given: tuple[bool, ...]
    constants: Mapping[int, npt.NDArray[Any]]
    dtypes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Why an engine does not take a node.

    Attributes:
        reason: In words.
        attribute: What it hangs on: an attribute or input of the node, "rank", "type"; "" when it is the operator itself.
        works: What the engine would take in its place; "" when nothing of the kind.
    """

    reason: str
    attribute: str = ""
    works: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that must hold for a node; a value that is not known holds.

    Attributes:
        subject: What is looked at.
        name: Attribute, for the subjects that need one.
        inputs: Positions of inputs, likewise.
        axis: Of `size`.
        allowed: The values taken; None for any.
        least: Smallest value taken.
        most: Largest.
        is_integer: Only whole numbers.
        when: Attribute to values: the condition counts only where all of them are met.
        until: Engine version from which on the condition is gone.
    """

    subject: Subject
    name: str = ""
    inputs: tuple[int, ...] = ()
    axis: int = 0
    allowed: tuple[Any, ...] | None = None
    least: float | None = None
    most: float | None = None
    is_integer: bool = False
    when: Mapping[str, tuple[Any, ...]]
    until: str = ""

    def lack_of(self, node: NodeFacts) -> Lack | None:
        """None when it holds."""
        if any(node.attributes.get(k) not in v for k, v in self.when.items()):
            return None
        if self.subject in ("constant", "absent"):
            return self._lack_of_inputs(node)
        bad = [v for v in _values(self, node) if not self._takes(v)]
        if not bad:
            return None
        what = self._what(node)
        shown = ", ".join(dict.fromkeys(f"{v:g}" if isinstance(v, float) else str(v) for v in bad))
        return Lack(
            reason=f"{what} is {shown}; taken: {self._taken()}", attribute=what, works=f"{what} {self._taken()}"
        )

    def _takes(self, value: Any) -> bool:
        if self.allowed is not None and value not in self.allowed:
            return False
        if self.is_integer and float(value) != round(float(value)):
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def _lack_of_inputs(self, node: NodeFacts) -> Lack | None:
        for i in self.inputs:
            if i >= len(node.given) or not node.given[i]:
                continue
            what = _input_name(node.op_type, i)
            if self.subject == "absent":
                return Lack(
                    reason=f"it has the input {what}", attribute=what, works=f"the same without the input {what}"
                )
            if i not in node.constants:
                return Lack(reason=f"the input {what} is computed", attribute=what, works=f"a constant {what}")
        return None

    def _what(self, node: NodeFacts) -> str:
        """The subject, in words."""
        if self.subject in ("attribute", "output_size"):
            return self.name if self.subject == "attribute" else f"size along {self.name}"
        if self.subject in ("size", "constant_value"):
            name = _input_name(node.op_type, self.inputs[0])
            return name if self.subject == "constant_value" else f"size of axis {self.axis} of {name}"
        words = {
            "einsum": "equation",
            "axis_from_end": "axis counted from the end",
            "outer_scale": "scale of batch and channel",
        }
        return words.get(self.subject, self.subject.replace("_", " "))

    def _taken(self) -> str:
        """The values taken, in words."""
        parts = [", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in self.allowed)] if self.allowed else []
        if self.least is not None and self.most is not None:
            parts.append(f"{self.least:g} to {self.most:g}")
        elif self.least is not None:
            parts.append(f"at least {self.least:g}")
        elif self.most is not None:
            parts.append(f"at most {self.most:g}")
        return " ".join((["whole numbers"] if self.is_integer else []) + parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpEntry:
    """One operator.

    Attributes:
        is_lacking: The engine does not take it, and its documents say what it takes instead.
        works: That.
        since: First version of the engine that takes it; "" for any.
        conditions: All must hold.
        source: Where this was read.
    """

    is_lacking: bool
    works: str
    since: str
    conditions: tuple[Condition, ...]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOps:
    """Operators of one engine.

    Attributes:
        engine: Its name, "qnn-htp".
        summary: One line.
        version: Of the engine that the answers are for; "" when its documents know none.
        takes_others: True when an operator that is not listed is taken.
        most_rank: Most axes of a tensor; None for any.
        types: Element types it computes in; None for any.
        fallback: What may run a node that it lacks.
        ops: By operator of the default domain.
    """

    engine: str
    summary: str
    version: str
    takes_others: bool
    most_rank: int | None
    types: frozenset[str] | None
    fallback: str
    ops: Mapping[str, OpEntry]

    def lack_of(self, node: NodeFacts) -> Lack | None:
        """Why the engine does not take a node as it is; None when nothing speaks against it."""
        entry = None if node.domain else self.ops.get(node.op_type)
        if entry is None:
            if self.takes_others:
                return None
            domain = f" of the domain {node.domain}" if node.domain else ""
            return Lack(reason=f"it has no {node.op_type}{domain}")
        if entry.is_lacking:
            return Lack(reason=f"it has no {node.op_type}", works=entry.works)
        if entry.since and _is_older(self.version, entry.since):
            return Lack(
                reason=f"{node.op_type} came with version {entry.since}, this is {self.version}",
                works=f"version {entry.since}",
            )
        return self._lack_of_form(node) or next(
            (
                lack
                for c in entry.conditions
                if not c.until or _is_older(self.version, c.until)
                if (lack := c.lack_of(node)) is not None
            ),
            None,
        )

    def _lack_of_form(self, node: NodeFacts) -> Lack | None:
        """Rank and element type."""
        other = sorted(node.dtypes - self.types) if self.types is not None else []
        if other:
            known = ", ".join(sorted(self.types or ()))
            return Lack(reason=f"it does not compute in {other[0]}", attribute="type", works=f"one of {known}")
        ranks = [len(s) for s in (*node.input_shapes, *node.output_shapes) if s is not None]
        if self.most_rank is not None and max(ranks, default=0) > self.most_rank:
            return Lack(
                reason=f"a tensor has {max(ranks)} axes, it takes {self.most_rank}",
                attribute="rank",
                works=f"rank {self.most_rank} or less",
            )
        return None


def engine_names() -> tuple[str, ...]:
    """Engines whose operators are known, sorted."""
    folder = resources.files("fts_devices") / "engine_ops"
    return tuple(sorted(f.name[:-5].replace("_", "-") for f in folder.iterdir() if f.name.endswith(".json")))


@cache
def load_engine_ops(engine: str, version: str = "") -> EngineOps:
    """Read an engine's operators.

    Args:
        engine: One of `engine_names()`.
        version: Of the engine; the file's own when "".

    Raises:
        UsageError: Unknown engine; the message lists the known ones and the nearest name.
    """
    names = engine_names()
    if engine not in names:
        near = difflib.get_close_matches(engine, names, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(f"engine {engine!r}: nothing is known of its operators; {hint}known: {', '.join(names)}")
    file = resources.files("fts_devices") / "engine_ops" / f"{engine.replace('-', '_')}.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    return EngineOps(
        engine=data["engine"],
        summary=data["summary"],
        version=version or data["version"],
        takes_others={"supported": True, "lacking": False}[data["other_ops"]],
        most_rank=data["most_rank"],
        types=None if data["types"] is None else frozenset(data["types"]),
        fallback=data["fallback"],
        ops={k: _entry_from_json(v, data["sources"]) for k, v in data["ops"].items()},
    )


def _entry_from_json(data: dict[str, Any], sources: Sequence[str]) -> OpEntry:
    unknown = set(data) - {"is_lacking", "works", "since", "conditions", "source"}
    if unknown:
        raise ValueError(f"an operator has the fields {sorted(unknown)}, which mean nothing")
    return OpEntry(
        is_lacking=data.get("is_lacking", False),
        works=data.get("works", ""),
        since=data.get("since", ""),
        conditions=tuple(_condition_from_json(c) for c in data.get("conditions", [])),
        source=sources[data["source"]],
    )


def _condition_from_json(data: dict[str, Any]) -> Condition:
    values = dict(data)
    return Condition(
        subject=values.pop("subject"),
        is_integer=values.pop("integer", False),
        inputs=tuple(values.pop("inputs", ())),
        allowed=None if "allowed" not in values else tuple(values.pop("allowed")),
        when={k: tuple(v) for k, v in values.pop("when", {}).items()},
        **values,
    )


def attributes_with_defaults(op_type: str, opset: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a node of the default domain, those left out at the operator's default; text as str, lists as tuples."""
    values: dict[str, Any] = {}
    if defs.has(op_type):
        try:
            schema = defs.get_schema(op_type, opset)
        except defs.SchemaError:  # an operator that came later than the net's opset
            schema = defs.get_schema(op_type)
        for name, attribute in schema.attributes.items():
            if attribute.default_value.type:
                values[name] = helper.get_attribute_value(attribute.default_value)
    values.update(given)
    return {k: _plain(v) for k, v in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return tuple(_plain(v) for v in value) if isinstance(value, list | tuple) else value


def _input_name(op_type: str, position: int) -> str:
    names = INPUT_NAMES.get(op_type, ())
    if position < len(names):
        return names[position]
    inputs = defs.get_schema(op_type).inputs if defs.has(op_type) else []
    return str(inputs[position].name) if position < len(inputs) else f"input {position}"


def _values(condition: Condition, node: NodeFacts) -> list[Any]:
    """What a condition compares; empty where nothing is known."""
    subject = condition.subject
    data = next((i for i in range(len(node.input_shapes)) if i not in node.constants), 0)
    first = node.input_shapes[data] if node.input_shapes else None
    result = node.output_shapes[0] if node.output_shapes else None
    if subject == "attribute":
        value = node.attributes.get(condition.name)
        return list(value) if isinstance(value, tuple) else [] if value is None else [value]
    if subject == "input_count":
        return [sum(node.given)]
    if subject == "output_count":
        return [len(node.output_shapes)]
    if subject == "constant_value":
        arrays = [node.constants[i] for i in condition.inputs if i in node.constants]
        return sorted({v.item() for a in arrays for v in np.asarray(a).reshape(-1)})
    if subject == "einsum":
        return einsum_features(str(node.attributes.get("equation", "")))
    if subject == "output_rank":
        return [] if result is None else [len(result)]
    if first is None:
        return []
    if subject == "rank":
        return [len(first)]
    if subject == "spatial_rank":
        return [len(first) - 2]
    if subject == "axis_from_end":
        axis = int(node.attributes.get("axis", -1))
        return [axis if axis < 0 else axis - len(first)]
    if subject == "kernel":
        weight = node.input_shapes[1] if len(node.input_shapes) > 1 else None
        return [] if weight is None else list(weight[2:])
    if subject == "size":
        shapes = [node.input_shapes[i] for i in condition.inputs if i < len(node.input_shapes)]
        return [s[condition.axis] for s in shapes if s is not None and len(s) > condition.axis]
    if result is None:
        return []
    if subject == "output_size":
        return [result[int(node.attributes.get(condition.name, -1))]]
    scales = _scales(node, first, result)
    return scales[:2] if subject == "outer_scale" else scales[2:]


def _scales(node: NodeFacts, first: tuple[int, ...], result: tuple[int, ...]) -> list[float]:
    """Output size / input size, or the scales that are given where they say more than the sizes."""
    position = {"Resize": 2, "Upsample": 1}.get(node.op_type, -1)
    given = node.constants.get(position)
    if given is not None and given.size == len(first):
        return [float(v) for v in given.reshape(-1)]
    return [o / i if i else 1.0 for i, o in zip(first, result, strict=False)]


def einsum_features(equation: str) -> list[str]:
    """ "ellipsis" and "diagonal" where an equation has them, else "plain"."""
    terms = equation.replace(" ", "").split("->")[0].split(",")
    letters = [t.replace("...", "") for t in terms]
    found = [
        *(["ellipsis"] if "..." in equation else []),
        *(["diagonal"] if any(len(set(t)) < len(t) for t in letters) else []),
    ]
    return found or ["plain"]


def _is_older(version: str, other: str) -> bool:
    """True when a version comes before another; an unknown version is the newest."""
    if not version:
        return False
    return [int(p) for p in version.split(".")] < [int(p) for p in other.split(".")]
