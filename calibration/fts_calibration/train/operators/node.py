"""A node's attributes, each read once and by type; what nobody read is refused, so that nothing is silently ignored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx import NodeProto, helper

from fts.errors import UnsupportedOpError

# What a node became: takes its inputs in order, None where an optional one is left out; gives a tensor or a tuple of them.
Run = Callable[..., Any]
DEFAULT_DOMAINS = ("", "ai.onnx")
ENGINE = "the torch twin"


class Node:
    """What an operator's builder sees of a node.

    Attributes:
        name: As in the graph, or operator and place.
        op_type: Operator.
        domain: "" for the standard one.
        opset: Version of the standard domain; semantics depend on it.
        inputs: Tensor names, "" where left out.
        outputs: Tensor names, "" where left out.
    """

    def __init__(self, proto: NodeProto, *, opset: int, index: int = 0) -> None:
        self.name = proto.name or f"#{index}"
        self.op_type = proto.op_type
        self.domain = proto.domain
        self.opset = opset
        self.inputs = tuple(proto.input)
        self.outputs = tuple(proto.output)
        self._attributes = {a.name: a for a in proto.attribute}
        self._unread = set(self._attributes)

    def _value(self, name: str, default: Any) -> Any:
        self._unread.discard(name)
        attribute = self._attributes.get(name)
        return default if attribute is None else helper.get_attribute_value(attribute)

    def integer(self, name: str, default: int) -> int:
        return int(self._value(name, default))

    def number(self, name: str, default: float) -> float:
        return float(self._value(name, default))

    def integers(self, name: str) -> tuple[int, ...] | None:
        """None where the attribute is absent."""
        value = self._value(name, None)
        return None if value is None else tuple(int(v) for v in value)

    def tensor(self, name: str) -> Any:
        """A TensorProto, None where the attribute is absent."""
        return self._value(name, None)

    def choice(self, name: str, default: str, allowed: Sequence[str]) -> str:
        """A string out of those that the twin knows.

        Raises:
            UnsupportedOpError: Another one.
        """
        value = self._value(name, default)
        text = value.decode() if isinstance(value, bytes) else str(value)
        if text not in allowed:
            raise self.refusal(f"{name}={text!r}", "one of " + ", ".join(map(repr, allowed)))
        return text

    def text(self, name: str) -> str:
        """A string that the node has to have."""
        return str(self._value(name, b"").decode())

    def ignore(self, *names: str) -> None:
        """Attributes that say nothing which the inputs do not."""
        self._unread.difference_update(names)

    def only(self, name: str, value: int) -> None:
        """An attribute of which the twin knows one value.

        Raises:
            UnsupportedOpError: It has another.
        """
        found = self.integer(name, value)
        if found != value:
            raise self.refusal(f"{name}={found}", f"{name}={value}")

    def refuse_outputs_after(self, count: int) -> None:
        """For operators with optional results.

        Raises:
            UnsupportedOpError: One of them is wanted.
        """
        if any(self.outputs[count:]):
            raise self.refusal(f"output {next(i for i, o in enumerate(self.outputs) if i >= count and o)}", f"{count}")

    def refuse_unread(self) -> None:
        """
        Raises:
            UnsupportedOpError: An attribute is set that the operator's builder did not ask for.
        """
        if self._unread:
            name = min(self._unread)
            raise self.refusal(f"attribute {name!r} at opset {self.opset}", "no such attribute")

    def refusal(self, found: str, expected: str) -> UnsupportedOpError:
        """The error for what the twin lacks."""
        domain = f"{self.domain}::" if self.domain not in DEFAULT_DOMAINS else ""
        return UnsupportedOpError(
            f"{domain}{self.op_type} {self.name!r}: {ENGINE} does not have {found}, expected {expected}. "
            "Leave out what needs gradients, or export the net with other operators",
            node=self.name,
            op_type=self.op_type,
            domain=self.domain,
            engine=ENGINE,
        )
