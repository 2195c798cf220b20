"""What the page is made from: a bundle, the folder beside it, and optionally a profile. Read once, here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fts.bundle.archive import open_bundle
from fts.errors import BundleError
from fts.vocabulary.manifest import PORTABLE_MEMBER, REPORT_MEMBER, encoded_member
from fts_converters.report_folder import SPEED_FILE, TIMINGS_FILE
from fts_converters.report_html.pictures import PictureSet, read_pictures


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes on disk; None where not known.

    Attributes:
        bundle: The whole file.
        engine: The net encoded for the target.
        portable: The FP32 net in the same bundle.
    """

    bundle: int | None = None
    engine: int | None = None
    portable: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Everything the page can show.

    Attributes:
        title: File name of the bundle.
        report: report.json.
        source: The model as it was named, "" when not known.
        sizes: Bytes.
        tools: Tool name to version.
        pictures: Of the verify split.
        profile: What `fts-profile --json` wrote, or None.
        reproduce: Words of the command, empty when not known.
        is_reproduce_complete: False when paths in `reproduce` are placeholders.
        timings_s: Seconds by stage, empty when not known.
        speed: Against FP32 on the converting machine (`fts_converters.speed.Speed`), None when not known.
    """

    title: str
    report: Mapping[str, Any]
    source: str = ""
    sizes: Sizes = field(default_factory=Sizes)
    tools: Mapping[str, str] = field(default_factory=dict)
    pictures: PictureSet = field(default_factory=PictureSet)
    profile: Mapping[str, Any] | None = None
    reproduce: tuple[str, ...] = ()
    is_reproduce_complete: bool = False
    timings_s: Mapping[str, float] = field(default_factory=dict)
    speed: Mapping[str, Any] | None = None


def content_from_bundle(
    bundle_path: Path,
    *,
    title: str,
    folder: Path,
    profile: Mapping[str, Any] | None = None,
    arguments: tuple[str, ...] = (),
    timings_s: Mapping[str, float] | None = None,
) -> Content:
    """Read a bundle and the pictures of its conversion.

    Args:
        bundle_path: The bundle.
        title: Name that the page shows.
        folder: Folder with pictures and timings; it may be missing.
        profile: What `fts-profile --json` wrote.
        arguments: Arguments of `fts-convert`; empty rebuilds them from the bundle, with placeholders for paths.
        timings_s: Seconds by stage; None reads them from the folder.

    Raises:
        BundleError: The bundle cannot be read, or holds no report.
    """
    bundle = open_bundle(bundle_path)
    sizes = {m.path: m.bytes for m in bundle.manifest.members}
    if REPORT_MEMBER not in sizes:
        raise BundleError(f"{bundle_path}: it holds no {REPORT_MEMBER}; it was not made by fts-convert")
    provenance = bundle.manifest.provenance
    return Content(
        title=title,
        report=json.loads(bundle.read(REPORT_MEMBER)),
        source=str(provenance.get("source", "")),
        sizes=Sizes(
            bundle=bundle_path.stat().st_size,
            engine=sizes.get(encoded_member(bundle.manifest.target)),
            portable=sizes.get(PORTABLE_MEMBER),
        ),
        tools={str(k): str(v) for k, v in provenance.get("tools", {}).items()},
        pictures=read_pictures(folder),
        profile=profile,
        reproduce=("fts-convert", *arguments) if arguments else _command(bundle.manifest.target, provenance),
        is_reproduce_complete=bool(arguments),
        timings_s=_timings(folder) if timings_s is None else timings_s,
        speed=_speed(folder),
    )


def _command(target: str, provenance: Mapping[str, Any]) -> tuple[str, ...]:
    """The command as far as a bundle knows it: bundles hold no paths."""
    options = provenance.get("options", {})
    words = ["fts-convert", str(provenance.get("source", "MODEL")), "--target", target, "--calib", "PATH"]
    for name, shape in options.get("shapes", {}).items():
        words += ["--shape", f"{name}={'x'.join(str(s) for s in shape)}"]
    if options.get("budget", "default") != "default":
        words += ["--budget", options["budget"]]
    if "metric" in options:
        words += ["--metric", str(options["metric"]["function"])]
    if "min_int8" in options:
        words += ["--min-int8", f"{options['min_int8']:g}"]
    return tuple(words)


def _timings(folder: Path) -> Mapping[str, float]:
    try:
        found = json.loads((folder / TIMINGS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(k): float(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _speed(folder: Path) -> Mapping[str, Any] | None:
    try:
        found = json.loads((folder / SPEED_FILE).read_text(encoding="utf-8"))
        return {**found, "ratio": float(found["ratio"]), "low": float(found["low"]), "high": float(found["high"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None
