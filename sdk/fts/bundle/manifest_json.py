"""manifest.json to `Manifest` and back: strict, byte-stable, and the one place that knows the file's keys.

The same keys stand in `fts/schema/manifest.schema.json`, for tools in other languages; a test holds the two together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, get_args

from fts.bundle.json_reader import JsonValue, json_from_text
from fts.bundle.zip_layout import unsafe_name_reason
from fts.errors import BundleManifestError, BundleVersionError
from fts.vocabulary.evidence import Evidence, EvidenceTag
from fts.vocabulary.manifest import (
    FORMAT_VERSION,
    EngineEntry,
    EngineState,
    InputEntry,
    Manifest,
    MemberEntry,
    OutputEntry,
    Requirements,
    RungEntry,
)
from fts.vocabulary.plan import NodePlan, Plan, Precision
from fts.vocabulary.preprocessing import ColorOrder, Fit, Layout, Preprocessing
from fts.vocabulary.tensor_spec import Dimension, TensorKind, TensorSpec

DTYPES = ("float32", "float16", "float64", "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64",
          "int64")  # fmt: skip

_MANIFEST_KEYS = ("format_version", "target", "requires", "members", "inputs", "outputs", "rungs", "engines", "plan",
                  "quality", "golden", "provenance")  # fmt: skip


# --- reading ----------------------------------------------------------------------------------------------------------


def manifest_from_json(text: str, name: str = "manifest.json") -> Manifest:
    """Parse a manifest.

    Args:
        text: Content of manifest.json.
        name: The bundle's name, for messages.

    Raises:
        BundleVersionError: It has another format version.
        BundleManifestError: A key is missing, unknown or of the wrong kind; the message holds its JSON path.
    """
    document = json_from_text(text, name)
    check_format_version(document, name)
    return manifest_from_document(document)


def check_format_version(document: JsonValue, name: str) -> None:
    """Refuse a manifest of another format version, whatever else it may hold.

    Args:
        document: manifest.json, of any version.
        name: The bundle's name, for the message.

    Raises:
        BundleVersionError: format_version is there and is not this version's.
        BundleManifestError: It is not a JSON object with a format_version.
    """
    manifest = document.free_object()
    if "format_version" not in manifest:
        raise BundleManifestError(f"{name}: $.format_version: missing from manifest.json, expected {FORMAT_VERSION}.")
    found = manifest["format_version"]
    if type(found) is not int or found != FORMAT_VERSION:
        raise BundleVersionError(
            f"{name}: the bundle has format version {json.dumps(found)[:40]}, this version of fts reads format version "
            f"{FORMAT_VERSION}. Convert again with this version's fts-convert, or install the fts that made the bundle."
        )


def member_entries_from_document(document: JsonValue) -> tuple[MemberEntry, ...]:
    """Only the members of a manifest, for the check of sizes and hashes that comes before the rest is parsed.

    Raises:
        BundleManifestError: The list is missing or wrong.
    """
    members = document.fields(_MANIFEST_KEYS)["members"]
    entries = members.tuple_of(_member)
    if len({e.path for e in entries}) != len(entries):
        members.refuse("every path once")
    return entries


def manifest_from_document(document: JsonValue) -> Manifest:
    """Parse a manifest whose format version has been checked.

    Raises:
        BundleManifestError: A key is missing, unknown or of the wrong kind; the message holds its JSON path.
    """
    fields = document.fields(_MANIFEST_KEYS)
    manifest = Manifest(
        format_version=fields["format_version"].integer(1),
        target=_target(fields["target"]),
        requires=_requirements(fields["requires"]),
        members=member_entries_from_document(document),
        inputs=fields["inputs"].tuple_of(_input),
        outputs=fields["outputs"].tuple_of(_output),
        rungs=fields["rungs"].tuple_of(_rung),
        engines=fields["engines"].tuple_of(_engine),
        plan=_plan(fields["plan"]),
        quality=_quality(fields["quality"]),
        golden=fields["golden"].free_object(),
        provenance=fields["provenance"].free_object(),
    )
    _check_references(manifest, fields)
    return manifest


def _check_references(manifest: Manifest, fields: Mapping[str, JsonValue]) -> None:
    paths = {m.path for m in manifest.members}
    for key in ("inputs", "outputs", "engines"):
        if not getattr(manifest, key):
            fields[key].refuse("at least one entry")
    for key, names in (
        ("inputs", [i.name for i in manifest.inputs]),
        ("outputs", [o.name for o in manifest.outputs]),
        ("rungs", [r.id for r in manifest.rungs]),
    ):
        if len(set(names)) != len(names):
            fields[key].refuse("every name once")
    for key, members in (
        ("engines", [e.member for e in manifest.engines]),
        ("rungs", [r.member for r in manifest.rungs]),
    ):
        for member in members:
            if member not in paths:
                fields[key].refuse(f"entries whose member is in the bundle; {member!r} is not")


def _target(value: JsonValue) -> str:
    text = value.text()
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", text):
        value.refuse('a target name such as "cpu-int8"')
    return text


def _member(value: JsonValue) -> MemberEntry:
    fields = value.fields(("path", "bytes", "sha256"))
    path = _member_path(fields["path"])
    sha256 = fields["sha256"].text()
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        fields["sha256"].refuse("64 lower-case hexadecimal digits")
    return MemberEntry(path=path, bytes=fields["bytes"].integer(0), sha256=sha256)


def _member_path(value: JsonValue) -> str:
    path = value.text()
    reason = unsafe_name_reason(path)
    if reason:
        value.refuse(f"a member path without {reason}")
    return path


def _requirements(value: JsonValue) -> Requirements:
    fields = value.fields(("isa", "onnxruntime"))
    version = fields["onnxruntime"].text()
    if not re.fullmatch(r"([0-9]{1,6}(\.[0-9]{1,6})*)?", version):
        fields["onnxruntime"].refuse('a version such as "1.19", or ""')
    return Requirements(isa=fields["isa"].tuple_of(lambda v: v.text(empty=False)), onnxruntime=version)


def _spec(fields: Mapping[str, JsonValue]) -> TensorSpec:
    return TensorSpec(
        name=fields["name"].text(empty=False),
        dtype=fields["dtype"].one_of(DTYPES),
        shape=fields["shape"].tuple_of(_dimension),
    )


def _dimension(value: JsonValue) -> Dimension:
    raw = value.anything()
    return value.text(empty=False) if isinstance(raw, str) else value.integer(1)


def _kind(value: JsonValue) -> TensorKind:
    return value.one_of(get_args(TensorKind))


def _input(value: JsonValue) -> InputEntry:
    fields = value.fields(("name", "dtype", "shape", "kind", "preprocessing", "default"))
    spec, kind = _spec(fields), _kind(fields["kind"])
    if kind == "image" and len(spec.shape) != 4:
        fields["shape"].refuse("4 axes for an image")
    if (kind == "image") == fields["preprocessing"].is_null:
        fields["preprocessing"].refuse("preprocessing for an image, null for a tensor")
    if kind == "image" and not fields["default"].is_null:
        fields["default"].refuse("null for an image")
    preprocessing = None if fields["preprocessing"].is_null else _preprocessing(fields["preprocessing"])
    return InputEntry(spec=spec, kind=kind, preprocessing=preprocessing, default=fields["default"].anything())


def _preprocessing(value: JsonValue) -> Preprocessing:
    fields = value.fields(("color", "scale", "mean", "std", "layout", "fit", "pad_value"))
    pre = Preprocessing(
        color=fields["color"].one_of(get_args(ColorOrder)),
        scale=fields["scale"].number(),
        mean=fields["mean"].tuple_of(JsonValue.number),
        std=fields["std"].tuple_of(JsonValue.number),
        layout=fields["layout"].one_of(get_args(Layout)),
        fit=fields["fit"].one_of(get_args(Fit)),
        pad_value=fields["pad_value"].integer(0),
    )
    if pre.pad_value > 255:
        fields["pad_value"].refuse("a pixel value 0..255")
    for key, numbers in (("mean", pre.mean), ("std", pre.std)):
        if len(numbers) != pre.channels:
            fields[key].refuse(f"{pre.channels} number(s), one a channel of {pre.color}")
    if 0 in pre.std:
        fields["std"].refuse("numbers other than 0")
    return pre


def _output(value: JsonValue) -> OutputEntry:
    fields = value.fields(("name", "dtype", "shape", "kind", "range"))
    spec, kind = _spec(fields), _kind(fields["kind"])
    if kind == "image" and len(spec.shape) != 4:
        fields["shape"].refuse("4 axes for an image")
    if fields["range"].is_null:
        if kind == "image":
            fields["range"].refuse("[low, high] for an image")
        return OutputEntry(spec=spec, kind=kind)
    numbers = fields["range"].tuple_of(JsonValue.number)
    if kind != "image" or len(numbers) != 2 or numbers[0] >= numbers[1]:
        fields["range"].refuse("[low, high] with low < high for an image, null for a tensor")
    return OutputEntry(spec=spec, kind=kind, range=(numbers[0], numbers[1]))


def _rung(value: JsonValue) -> RungEntry:
    fields = value.fields(("id", "height_px", "width_px", "member", "quality", "compensator"))
    compensator = fields["compensator"]
    return RungEntry(
        id=fields["id"].text(empty=False),
        height_px=fields["height_px"].integer(1),
        width_px=fields["width_px"].integer(1),
        member=_member_path(fields["member"]),
        quality=fields["quality"].free_object(),
        compensator=None if compensator.is_null else compensator.text(empty=False),
    )


def _engine(value: JsonValue) -> EngineEntry:
    fields = value.fields(("kind", "member", "state", "precision", "requires", "evidence"))
    return EngineEntry(
        kind=fields["kind"].text(empty=False),
        member=_member_path(fields["member"]),
        state=fields["state"].one_of(get_args(EngineState)),
        precision=fields["precision"].text(empty=False),
        requires=_requirements(fields["requires"]),
        evidence=None if fields["evidence"].is_null else _evidence(fields["evidence"]),
    )


def _evidence(value: JsonValue) -> Evidence:
    fields = value.fields(("tag", "by", "detail"))
    return Evidence(
        tag=fields["tag"].one_of(get_args(EvidenceTag)),
        by=fields["by"].text(empty=False),
        detail=fields["detail"].text(),
    )


def _plan(value: JsonValue) -> Plan:
    fields = value.fields(("target", "dialect", "nodes"))
    return Plan(
        target=fields["target"].text(empty=False),
        dialect=fields["dialect"].text(),
        nodes=fields["nodes"].tuple_of(_node),
    )


def _node(value: JsonValue) -> NodePlan:
    fields = value.fields(
        ("name", "op_type", "precision", "engine", "reason", "macs", "weight_bits", "output_bits", "has_channel_grids")
    )
    return NodePlan(
        name=fields["name"].text(),
        op_type=fields["op_type"].text(empty=False),
        precision=fields["precision"].one_of(get_args(Precision)),
        engine=fields["engine"].text(empty=False),
        reason=fields["reason"].text(empty=False),
        macs=fields["macs"].integer(0),
        weight_bits=fields["weight_bits"].integer(0),
        output_bits=fields["output_bits"].integer(0),
        has_channel_grids=fields["has_channel_grids"].boolean(),
    )


def _quality(value: JsonValue) -> dict[str, Any]:
    quality = value.free_object()
    for key in ("budget", "met"):
        if key not in quality:
            value.refuse(f"an object with the key {key}")
    JsonValue(quality["budget"], "$.quality.budget", "manifest.json").text()
    JsonValue(quality["met"], "$.quality.met", "manifest.json").boolean()
    return quality


# --- writing ----------------------------------------------------------------------------------------------------------


def json_from_manifest(manifest: Manifest) -> str:
    """Write a manifest: keys sorted, indent 1, a newline at the end; equal manifests give equal bytes.

    Raises:
        ValueError: A number is NaN or infinite.
        TypeError: A mapping holds what JSON does not have, such as a numpy number.
    """
    document = {
        "format_version": manifest.format_version,
        "target": manifest.target,
        "requires": _requirements_json(manifest.requires),
        "members": [{"path": m.path, "bytes": m.bytes, "sha256": m.sha256} for m in manifest.members],
        "inputs": [_input_json(i) for i in manifest.inputs],
        "outputs": [_output_json(o) for o in manifest.outputs],
        "rungs": [
            {
                "id": r.id,
                "height_px": r.height_px,
                "width_px": r.width_px,
                "member": r.member,
                "quality": r.quality,
                "compensator": r.compensator,
            }
            for r in manifest.rungs
        ],
        "engines": [_engine_json(e) for e in manifest.engines],
        "plan": _plan_json(manifest.plan),
        "quality": manifest.quality,
        "golden": manifest.golden,
        "provenance": manifest.provenance,
    }
    return canonical_json(document)


def canonical_json(document: Mapping[str, Any]) -> str:
    """JSON text of a bundle's members: keys sorted, indent 1, UTF-8, a newline at the end.

    Raises:
        ValueError: A number is NaN or infinite.
        TypeError: It holds what JSON does not have, such as a numpy number.
    """
    text = json.dumps(document, sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False, default=_mapping_json)
    return text + "\n"


def _mapping_json(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON: {value!r}")


def _requirements_json(requires: Requirements) -> dict[str, Any]:
    return {"isa": list(requires.isa), "onnxruntime": requires.onnxruntime}


def _spec_json(entry: InputEntry | OutputEntry) -> dict[str, Any]:
    return {"name": entry.name, "dtype": entry.dtype, "shape": list(entry.shape), "kind": entry.kind}


def _input_json(entry: InputEntry) -> dict[str, Any]:
    pre = entry.preprocessing
    pre_json = pre and {
        "color": pre.color,
        "scale": pre.scale,
        "mean": list(pre.mean),
        "std": list(pre.std),
        "layout": pre.layout,
        "fit": pre.fit,
        "pad_value": pre.pad_value,
    }
    return {**_spec_json(entry), "preprocessing": pre_json, "default": entry.default}


def _output_json(entry: OutputEntry) -> dict[str, Any]:
    return {**_spec_json(entry), "range": None if entry.range is None else list(entry.range)}


def _engine_json(engine: EngineEntry) -> dict[str, Any]:
    evidence = engine.evidence
    return {
        "kind": engine.kind,
        "member": engine.member,
        "state": engine.state,
        "precision": engine.precision,
        "requires": _requirements_json(engine.requires),
        "evidence": evidence and {"tag": evidence.tag, "by": evidence.by, "detail": evidence.detail},
    }


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "target": plan.target,
        "dialect": plan.dialect,
        "nodes": [
            {
                "name": n.name,
                "op_type": n.op_type,
                "precision": n.precision,
                "engine": n.engine,
                "reason": n.reason,
                "macs": n.macs,
                "weight_bits": n.weight_bits,
                "output_bits": n.output_bits,
                "has_channel_grids": n.has_channel_grids,
            }
            for n in plan.nodes
        ],
    }
