"""Time a layer: kernels of onnxruntime's own profile, told by the names of the source net.

Profiling costs time itself, so shares are taken from the profiled run and scaled to the unprofiled one; the inflation
factor, profiled over unprofiled, stands beside them. What the profile gives to no kernel is the row "unattributed".

A kernel's name leads back to its node: engines append to it (`NAME_token_7`, `NAME_weight_QuantizeLinear`), or call the
kernel after the tensor it gives (`TENSOR_nchwc`).
Whether it ran in integers is told by the kernel that ran, never by what was planned.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fts.errors import EngineError
from fts.vocabulary.plan import NodePlan

Ran = Literal["int8", "float", "conversion"]

UNATTRIBUTED = "unattributed"
ENGINE_OWN = "(engine's own)"
UNSTEADY = 0.20
_SETTLING_RUNS = 3
_BLOCKED = "_nchwc"

_CONVERSIONS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
_INTEGER_KERNELS = frozenset(
    {"ConvInteger", "MatMulInteger", "QGemm", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QAttention", "QMoE"}
)
_BYTES = frozenset({"uint8", "int8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel of the engine.

    Attributes:
        name: As the engine calls it.
        op_type: The operator that ran.
        ran: In which arithmetic.
        ms: Mean time over the frames counted.
    """

    name: str
    op_type: str
    ran: Ran
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTimes:
    """A profiled run.

    Attributes:
        total_ms: Mean time of a whole run while profiled, over the frames counted.
        frames: How many frames were counted: the quieter half, so that a disturbed one weighs nothing.
        kernels: In the order in which they ran.
    """

    total_ms: float
    frames: int
    kernels: tuple[Kernel, ...]

    @property
    def attributed_share(self) -> float:
        """Sum of the kernels over the whole run, before any scaling."""
        return sum(k.ms for k in self.kernels) / self.total_ms if self.total_ms else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """One source node, or "unattributed".

    Attributes:
        name: Source node; ENGINE_OWN for kernels that the engine added and that belong to none.
        op_type: Of the source node, or of the kernels.
        planned: Precision that the plan gave it, or "".
        ran: Arithmetic of its kernel that took longest, conversions aside where there is another; or "".
        kernels: Operators that ran for it.
        share: Of the whole run, 0..1; mean of the profiled runs.
        ms: The share of the unprofiled run.
        conversion_ms: What of it quantizes and dequantizes.
        unsteady: Whether the share changed by more than 20 % between the profiled runs.
    """

    name: str
    op_type: str
    planned: str
    ran: str
    kernels: tuple[str, ...]
    share: float
    ms: float
    conversion_ms: float
    unsteady: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTable:
    """Where the engine's time goes.

    Attributes:
        profiled_ms: A whole run while profiled, mean of the runs.
        unprofiled_ms: A whole run without: what the rows add up to.
        inflation: profiled over unprofiled.
        attributed_share: Sum of the kernels over the whole profiled run, before scaling; mean of the runs.
        rows: Largest first, "unattributed" last.
    """

    profiled_ms: float
    unprofiled_ms: float
    inflation: float
    attributed_share: float
    rows: tuple[LayerRow, ...]


def kernel_times_from_profile(text: str, *, producers: Mapping[str, str]) -> KernelTimes:
    """Read onnxruntime's profile.

    Args:
        text: JSON, a list of events: "model_run" encloses the "Node" events of one run; times in microseconds.
        producers: Tensor to the node of the engine's graph that gives it, for kernels that are called after a tensor.

    Raises:
        EngineError: It holds no complete run.
    """
    events: list[dict[str, Any]] = [e for e in json.loads(text) if isinstance(e, dict) and "dur" in e]
    runs = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e.get("name") == "model_run")
    runs = runs[_SETTLING_RUNS:] or runs
    nodes = sorted(
        (e for e in events if e.get("cat") == "Node" and str(e.get("name", "")).endswith("_kernel_time")),
        key=lambda e: int(e["ts"]),
    )
    if not runs:
        raise EngineError("onnxruntime's profile holds no complete run; profile again, or leave it out: --no-layers.")
    quiet = sorted(sorted(runs, key=lambda r: r[1] - r[0])[: (len(runs) + 1) // 2])
    sums_us: dict[tuple[str, str], float] = {}
    details: dict[tuple[str, str], Ran] = {}
    position = 0
    for begin, end in quiet:
        while position < len(nodes) and nodes[position]["ts"] < begin:
            position += 1
        while position < len(nodes) and nodes[position]["ts"] < end:
            event = nodes[position]
            arguments = event.get("args", {})
            key = (_kernel_name(str(event["name"]), producers), str(arguments.get("op_name", "")))
            sums_us[key] = sums_us.get(key, 0.0) + float(event["dur"])
            details.setdefault(key, ran_as(key[1], _types(arguments.get("output_type_shape"))))
            position += 1
    count = len(quiet)
    return KernelTimes(
        total_ms=sum(end - begin for begin, end in quiet) / count / 1e3,
        frames=count,
        kernels=tuple(
            Kernel(name=key[0], op_type=key[1], ran=details[key], ms=total / count / 1e3)
            for key, total in sums_us.items()
        ),
    )


def _kernel_name(event: str, producers: Mapping[str, str]) -> str:
    name = event.removesuffix("_kernel_time")
    return producers.get(name.removesuffix(_BLOCKED), name) if name.endswith(_BLOCKED) else name


def ran_as(op_type: str, output_types: Collection[str]) -> Ran:
    """Arithmetic of a kernel: by its operator, else by the type of what it gives (a MaxPool of bytes is integer)."""
    if op_type in _CONVERSIONS:
        return "conversion"
    if op_type.startswith("QLinear") or op_type in _INTEGER_KERNELS:
        return "int8"
    return "int8" if output_types and set(output_types) <= _BYTES else "float"


def source_name(kernel: str, sources: Collection[str]) -> str | None:
    """The source node that a kernel belongs to: its own name, or the longest one that the kernel's name extends."""
    if kernel in sources:
        return kernel
    for end in range(len(kernel) - 1, 0, -1):
        if not kernel[end].isalnum() and kernel[:end] in sources:
            return kernel[:end]
    return None


def layer_table(runs: Sequence[KernelTimes], nodes: Sequence[NodePlan], unprofiled_ms: float) -> LayerTable:
    """Tell the profiled runs by source node and scale them.

    Args:
        runs: Profiled runs in processes of their own, two or more.
        nodes: The plan: names, operators and precisions of the source nodes.
        unprofiled_ms: Median time of the engine without profiling.
    """
    plans = {n.name: n for n in nodes}
    by_run = [_groups(run, plans) for run in runs]
    names = dict.fromkeys(name for groups in by_run for name in groups)
    rows = []
    for name in names:
        shares = [
            sum(k.ms for k in groups.get(name, ())) / run.total_ms for run, groups in zip(runs, by_run, strict=True)
        ]
        kernels = next(groups[name] for groups in by_run if name in groups)
        rows.append(_row(name, plans.get(name), kernels, shares, unprofiled_ms))
    rows.sort(key=lambda row: -row.share)
    attributed = sum(run.attributed_share for run in runs) / len(runs)
    rows.append(
        LayerRow(
            name=UNATTRIBUTED,
            op_type="",
            planned="",
            ran="",
            kernels=(),
            share=1 - attributed,
            ms=(1 - attributed) * unprofiled_ms,
            conversion_ms=0.0,
            unsteady=_is_unsteady([1 - run.attributed_share for run in runs]),
        )
    )
    profiled_ms = sum(run.total_ms for run in runs) / len(runs)
    return LayerTable(
        profiled_ms=profiled_ms,
        unprofiled_ms=unprofiled_ms,
        inflation=profiled_ms / unprofiled_ms,
        attributed_share=attributed,
        rows=tuple(rows),
    )


def _groups(run: KernelTimes, plans: Mapping[str, NodePlan]) -> dict[str, list[Kernel]]:
    groups: dict[str, list[Kernel]] = {}
    for kernel in run.kernels:
        groups.setdefault(source_name(kernel.name, plans) or ENGINE_OWN, []).append(kernel)
    return groups


def _row(
    name: str, plan: NodePlan | None, kernels: Sequence[Kernel], shares: Sequence[float], unprofiled_ms: float
) -> LayerRow:
    share = sum(shares) / len(shares)
    total = sum(k.ms for k in kernels)
    converting = sum(k.ms for k in kernels if k.ran == "conversion") / total if total else 0.0
    operators = tuple(dict.fromkeys(k.op_type for k in kernels))
    return LayerRow(
        name=name,
        op_type=plan.op_type if plan else "",
        planned=plan.precision if plan else "",
        ran=max(kernels, key=lambda k: (k.ran != "conversion", k.ms)).ran if plan else "",
        kernels=operators,
        share=share,
        ms=share * unprofiled_ms,
        conversion_ms=converting * share * unprofiled_ms,
        unsteady=_is_unsteady(shares),
    )


def _is_unsteady(shares: Sequence[float]) -> bool:
    return max(shares) - min(shares) > UNSTEADY * sum(shares) / len(shares)


def _types(shapes: Any) -> list[str]:
    """Element types of `[{"float": [1, 3]}, ...]`."""
    return [kind for entry in shapes or () if isinstance(entry, dict) for kind in entry]
