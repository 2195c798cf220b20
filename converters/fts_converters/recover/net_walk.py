"""Run a net bit by bit: each step computes what is asked for and nothing twice, with what later steps need kept a sample.

So a unit's input can be looked at before the unit itself is decided, for the price of one run of the net in all. What is
kept lies in memory up to KEPT_LIMIT_BYTES and on disk beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from fts.engines.onnxruntime_session import open_session
from fts_converters.light_proto import serialized

Arrays = dict[str, npt.NDArray[np.generic]]

# Of all samples together, for one net: some 60 feature maps of 64 x 128 x 128 in float.
KEPT_LIMIT_BYTES = 256 * 2**20


class NetWalk:
    """The state of a walk: which nodes have run, and the tensors between them and the others, sample by sample.

    Constants are no part of it: what only depends on them is computed again where it is needed, so that the model may get
    other constants (not other nodes) for nodes that have not run.
    """

    def __init__(self, feeds: Iterable[Mapping[str, npt.NDArray[np.generic]]], folder: Path) -> None:
        """Start in front of the first node.

        Args:
            feeds: All samples; they are kept.
            folder: An empty one, for what has no room in memory; removing it is the caller's business.
        """
        self._folder = folder
        self._done: set[str] = set()
        self._kept: list[_Sample] = []
        self._bytes = 0
        for feed in feeds:
            self._kept.append(self._put(dict(feed), len(self._kept)))

    @property
    def samples(self) -> int:
        """How many there are."""
        return len(self._kept)

    def step(
        self,
        model: onnx.ModelProto,
        tensors: Sequence[str],
        *,
        weights: Mapping[str, npt.NDArray[np.generic]] | None = None,
        exact_u8s8: bool = False,
    ) -> Iterator[Arrays]:
        """Go on until `tensors` are there; gives them sample by sample, and has to be read to its end.

        Args:
            model: The net, with the nodes that it had at the steps before.
            tensors: Results of nodes or inputs; their readers have not all run.
            weights: Values of initializers that are external tensors in `model`.
            exact_u8s8: As `open_session`.
        """
        wanted = list(dict.fromkeys(tensors))
        constant = _constant_tensors(model)
        needed = self._needed(model, wanted)
        done = self._done | {n.name for n in needed if not set(n.output) <= constant}
        live = _live(model, done, constant)
        made = {o for n in needed for o in n.output}
        session = None
        for number, kept in enumerate(self._kept):
            before = kept.arrays()
            if needed and session is None:
                outputs = sorted(made & (live | set(wanted)))
                part = _part(model, needed, before, outputs)
                held = {t.name: weights[t.name] for t in part.graph.initializer if weights and t.name in weights}
                session = open_session(serialized(part, "a part"), weights=held, exact_u8s8=exact_u8s8, what="a part")
            after = dict(before)
            if session is not None:
                read = {name: before[name] for name in session.input_names}
                after.update(zip(session.output_names, session.run(read), strict=True))
            yield {name: after[name] for name in wanted}
            self._bytes -= 0 if kept.path else _bytes(before)
            self._kept[number] = self._put({n: v for n, v in after.items() if n in live}, number)
        self._done = done

    def _needed(self, model: onnx.ModelProto, tensors: Sequence[str]) -> list[onnx.NodeProto]:
        """Nodes to run for `tensors`, in graph order."""
        producers = {name: i for i, node in enumerate(model.graph.node) for name in node.output if name}
        found: set[int] = set()
        waiting = list(tensors)
        while waiting:
            position = producers.get(waiting.pop())
            if position is None or position in found or model.graph.node[position].name in self._done:
                continue
            found.add(position)
            waiting += names_read(model.graph.node[position])
        return [model.graph.node[i] for i in sorted(found)]

    def _put(self, arrays: Arrays, number: int) -> _Sample:
        names, values = tuple(arrays), tuple(arrays.values())
        if self._bytes + _bytes(arrays) <= KEPT_LIMIT_BYTES:
            self._bytes += _bytes(arrays)
            return _Sample(names=names, values=values)
        path = self._folder / f"{number}.npz"
        np.savez(path, *values)
        return _Sample(names=names, path=path)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sample:
    """What is kept of a sample: in `values`, or in the file `path`."""

    names: tuple[str, ...]
    values: tuple[npt.NDArray[np.generic], ...] = ()
    path: Path | None = None

    def arrays(self) -> Arrays:
        if self.path is None:
            return dict(zip(self.names, self.values, strict=True))
        with np.load(self.path, allow_pickle=False) as file:
            return {name: file[f"arr_{i}"] for i, name in enumerate(self.names)}


def _part(
    model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], before: Arrays, outputs: Sequence[str]
) -> onnx.ModelProto:
    """A model of some nodes that reads what is kept."""
    read = {name for node in nodes for name in names_read(node)}
    part = onnx.ModelProto(ir_version=model.ir_version)
    part.opset_import.extend(model.opset_import)
    part.functions.extend(model.functions)
    part.graph.name = model.graph.name
    part.graph.node.extend(nodes)
    part.graph.initializer.extend(t for t in model.graph.initializer if t.name in read)
    part.graph.input.extend(
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in before.items()
        if n in read
    )
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)  # types are the engine's to infer
    return part


def _live(model: onnx.ModelProto, done: set[str], constant: set[str]) -> set[str]:
    """What nodes that have not run read of those that have, and of the inputs."""
    made = {i.name for i in model.graph.input} | {o for n in model.graph.node if n.name in done for o in n.output}
    read = {name for n in model.graph.node if n.name not in done for name in names_read(n)}
    return (made & read) - constant


def _constant_tensors(model: onnx.ModelProto) -> set[str]:
    """Initializers and what is computed of them alone."""
    found = {t.name for t in model.graph.initializer}
    for node in model.graph.node:
        if not node.op_type.startswith("Random") and names_read(node) <= found:
            found.update(node.output)
    return found


def names_read(node: onnx.NodeProto) -> set[str]:
    """Names that a node reads, those in its subgraphs too."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                names |= names_read(inner)
            names.update(o.name for o in graph.output)
    return names


def _bytes(arrays: Mapping[str, npt.NDArray[np.generic]]) -> int:
    return sum(a.nbytes for a in arrays.values())
