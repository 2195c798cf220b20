"""The audit of a calibration set: every check in its order, and which samples it is asked about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fts.imaging.preprocess import net_size
from fts.vocabulary.preprocessing import Preprocessing
from fts_calibration.audit.boxes_json import files_without_boxes
from fts_calibration.audit.colors import check_color_cast, check_color_order, check_grey_pictures
from fts_calibration.audit.contents import check_contents, kind_of
from fts_calibration.audit.faces import check_faces
from fts_calibration.audit.finding import Finding, names_text
from fts_calibration.audit.look import Look
from fts_calibration.audit.repetition import check_copies, check_near_copies, check_one_scene
from fts_calibration.audit.size import check_count, check_detail
from fts_calibration.audit.value_range import (
    check_channel_layout,
    check_value_range,
    is_too_narrow,
    samples_interleaved,
    samples_out_of_range,
)
from fts_calibration.audit.watch import LookTaker
from fts_calibration.dataset.calibration_set import CalibrationSet


def audit_set(data: CalibrationSet, taken: LookTaker) -> tuple[Finding, ...]:
    """What is wrong with a calibration set, as far as the set alone tells.

    Args:
        data: The set, opened with `taken` watching.
        taken: A look at every sample.

    Returns:
        Findings in the order of the checks; of nets with several image inputs, the message names the input.
    """
    names = [sample.record.path for sample in data.samples]
    findings: list[Finding] = []
    for request in taken.images:
        if (pre := request.preprocessing) is None or not (looks := taken.looks(request.spec.name, names)):
            continue
        height_px, width_px = net_size(request.spec, pre)
        found = _audit_input(looks, data, pre, (width_px, height_px), taken)
        where = f"input {request.spec.name!r}: " if len(taken.images) > 1 else ""
        findings += [replace(f, message=where + f.message) for f in found]
    if not findings and not taken.images:
        text = "the net has no image input; only shapes, types, NaN and infinity were checked"
        findings.append(Finding(id="not-checked", severity="note", message=text, fix="Declare the input's kind."))
    return tuple(findings)


def _audit_input(
    looks: Sequence[Look], data: CalibrationSet, pre: Preprocessing, net_wh: tuple[int, int], taken: LookTaker
) -> Iterator[Finding]:
    yield from check_count(looks)
    yield from check_copies(looks, data.files)
    yield from check_channel_layout(looks)
    interleaved = samples_interleaved(looks)
    in_order = [look for look in looks if look not in interleaved]
    yield from check_value_range(in_order, pre)
    # Pixels of tensors that miss the contract are not what was photographed: nothing is said about them.
    missed = in_order if is_too_narrow(in_order, pre) else samples_out_of_range(in_order)
    judged = [look for look in in_order if look not in missed]
    yield from check_contents(judged)
    pictures = [look for look in judged if not kind_of(look)]
    yield from check_detail(pictures, net_wh)
    yield from check_grey_pictures(pictures, pre.channels)
    casts = tuple(check_color_cast(pictures))
    yield from casts
    yield from check_color_order(pictures, pre.channels, has_cast=bool(casts))
    yield from check_near_copies(pictures)
    yield from check_one_scene(pictures)
    yield from check_faces(pictures, taken.face_source)
    if unknown := files_without_boxes(taken.faces or {}, frozenset(record.path for record in data.files)):
        message = f"boxes.json names {len(unknown)} files that are not in the set ({names_text(unknown)})"
        yield Finding(id="faces-unknown-file", severity="note", message=message, fix="Correct the names.")
