"""What a finished conversion is judged by: the plan as it runs, conditions that were missed, warnings about the result."""

from __future__ import annotations

from dataclasses import replace

from fts.vocabulary.plan import NodePlan, Plan
from fts_converters.macs import MAC_OPS
from fts_converters.quantize.search_budget import SearchResult
from fts_converters.request import ConvertRequest
from fts_converters.verify import Verification
from fts_converters.warnings_log import WarningLog
from fts_devices.onnxruntime_cpu.integer_kernels import KernelReport


def as_it_runs(plan: Plan, kernels: KernelReport) -> Plan:
    """The plan with every node that ONNX Runtime runs in float after all marked so."""
    not_taken = set(kernels.float_nodes)

    def as_run(node: NodePlan) -> NodePlan:
        if node.precision != "int8" or node.name not in not_taken:
            return node
        reason = "encoded for INT8, but onnxruntime makes no integer kernel of it: it runs in float"
        return replace(node, precision="fp32", reason=reason)

    return replace(plan, nodes=tuple(as_run(n) for n in plan.nodes))


def missed_conditions(request: ConvertRequest, found: SearchResult, verification: Verification) -> tuple[str, ...]:
    """Accuracy budgets and the least INT8 share, as sentences; empty when all hold."""
    failures = []
    if not request.is_budget_none:
        for split, scores in (("select", found.scores), ("verify", verification.scores)):
            failures += [
                f"output {s.output!r}: {s.budget} missed on the {split} split: {s.budget.figure(s.value)} (n = {len(s.values)})"
                for s in scores
                if s.margin < 0
            ]
    share = verification.kernels.integer_mac_share
    if share < request.min_int8 and not any(n.macs for n in found.plan.nodes):
        failures.append(
            f"the net has no {', '.join(sorted(MAC_OPS))} outside of If and Loop, so none of it runs in integer kernels, "
            f"{request.min_int8:.0%} of the MACs wanted (--min-int8 0 accepts that)"
        )
    elif share < request.min_int8:
        failures.append(f"{share:.1%} of the MACs run in integer kernels, {request.min_int8:.0%} wanted (--min-int8)")
    if request.min_speedup is not None:
        failures += _missed_speedup(request.min_speedup, verification)
    return tuple(failures)


def _missed_speedup(wanted: float, verification: Verification) -> list[str]:
    speed = verification.speed
    if speed is None:
        return [
            f"no speed could be measured here, {wanted:g} times FP32 wanted (--min-speedup): {_why_unmeasured(verification)}"
        ]
    if speed.low < wanted:
        why = f": {speed.why}" if speed.why else ""
        return [f"{speed}, at least {wanted:g} wanted (--min-speedup){why}"]
    return []


def _why_unmeasured(verification: Verification) -> str:
    if verification.evidence.tag != "measured":
        return f"the engine is {verification.evidence.tag} on this machine, not run as on the target"
    return "there was no sample to run"


def warn_about(
    request: ConvertRequest,
    plan: Plan,
    found: SearchResult,
    verification: Verification,
    split: str,
    warnings: WarningLog,
) -> None:
    """Warnings that only the finished conversion can give."""
    planned = {n.name for n in found.plan.nodes if n.precision == "int8"}
    lost = [n.name for n in plan.nodes if n.precision != "int8" and n.name in planned]
    if lost:
        warnings.add("not-int8-after-all", f"onnxruntime runs these in float although encoded: {', '.join(lost[:10])}")
    if not any(n.precision == "int8" for n in plan.nodes):
        warnings.add("nothing-int8", "no node of the net runs in INT8; the report says why for each")
    speed = verification.speed
    if speed is not None and not speed.is_faster:
        warnings.add("not-faster", f"not shown to be faster than FP32 here: {speed}; {speed.why}", is_timing=True)
    if split != "verify":
        warnings.add("not-verified", "no file was left to verify on: the metrics are those of the calibration files")
    if request.is_budget_none:
        low = [s for s in verification.scores if s.margin < 0]
        for s in low:
            warnings.add(
                "quality-low",
                f"output {s.output!r}: {s.budget.metric} {s.budget.figure(s.value)}, and --budget none lets it pass",
            )
