"""Target name to DeviceProfile. A target is a folder under `targets/` with a profile.json; nothing else registers it."""

from __future__ import annotations

import difflib
import json
from functools import cache
from importlib import resources
from typing import Any

from fts.errors import UsageError
from fts.vocabulary.device_profile import DeviceProfile, OpRule
from fts.vocabulary.dialect import Dialect
from fts.vocabulary.quantization import Scheme


def target_names() -> tuple[str, ...]:
    """Names of the targets that convert in this version, sorted."""
    folder = resources.files("fts_devices") / "targets"
    found = [d.name.replace("_", "-") for d in folder.iterdir() if (d / "profile.json").is_file()]
    return tuple(sorted(found))


@cache
def load_profile(target: str) -> DeviceProfile:
    """Read a target's profile.

    Raises:
        UsageError: Unknown target; the message lists the known ones and the nearest name.
    """
    names = target_names()
    if target not in names:
        near = difflib.get_close_matches(target, names, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(f"target {target!r}: not in this version; {hint}known targets: {', '.join(names)}")
    file = resources.files("fts_devices") / "targets" / target.replace("-", "_") / "profile.json"
    return _profile_from_json(json.loads(file.read_text(encoding="utf-8")))


def _profile_from_json(data: dict[str, Any]) -> DeviceProfile:
    return DeviceProfile(
        **{k: data[k] for k in ("target", "device", "engine", "precision", "summary", "verified")},
        dialects={k: _dialect_from_json(v) for k, v in data["dialects"].items()},
        integer_ops={k: OpRule(**v) for k, v in data["integer_ops"].items()},
        float_reasons=data["float_reasons"],
    )


def _dialect_from_json(data: dict[str, Any]) -> Dialect:
    return Dialect(
        name=data["name"],
        isa=tuple(data["isa"]),
        activation=Scheme(**data["activation"]),
        weight=Scheme(**data["weight"]),
        bias_bits=data["bias_bits"],
        quantizes_outputs=data["quantizes_outputs"],
        pair_sum_limit=data.get("pair_sum_limit"),
        mac_costs=data["mac_costs"],
        has_sum_kernels=data.get("has_sum_kernels", False),
    )
