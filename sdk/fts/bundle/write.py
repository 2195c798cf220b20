"""Write a bundle: equal content gives equal bytes, and the final name appears only when the file is whole."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fts.atomic_file import replaced_file
from fts.bundle.manifest_json import json_from_manifest, manifest_from_json
from fts.bundle.zip_layout import MAX_ARCHIVE_BYTES, MAX_MANIFEST_BYTES, unsafe_name_reason
from fts.errors import BundleError
from fts.vocabulary.manifest import MANIFEST_MEMBER, Manifest, MemberEntry

_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_REGULAR_FILE = 0o100644 << 16


def write_bundle(path: str | os.PathLike[str], manifest: Manifest, members: Mapping[str, bytes]) -> Manifest:
    """Pack members and their manifest into one bundle file.

    Args:
        path: Final name; its folder exists. An older file there is replaced at the very end.
        manifest: The manifest with `members=()`; the list is made here.
        members: Content of every file but manifest.json, by path.

    Returns:
        The manifest as written, with its members.

    Raises:
        ValueError: `manifest.members` is not empty, or a path is not one that a bundle may hold.
        BundleManifestError: The manifest would not be read back: an engine names no member, for instance.
        BundleError: The file cannot be written, or would be too large.
    """
    if manifest.members:
        raise ValueError("write_bundle: manifest.members must be empty; it is made from the members")
    for member in members:
        reason = "the manifest's own name" if member == MANIFEST_MEMBER else unsafe_name_reason(member)
        if reason:
            raise ValueError(f"write_bundle: member {member!r} has {reason}")
    complete = replace(manifest, members=_entries(members))
    text = json_from_manifest(complete)
    manifest_from_json(text)
    content = {MANIFEST_MEMBER: text.encode("utf-8"), **{m: members[m] for m in sorted(members)}}
    _check_size(Path(path), content)
    try:
        with replaced_file(Path(path)) as part:
            _write_archive(part, content)
    except OSError as cause:
        raise BundleError(f"{path}: cannot be written: {cause.strerror or cause}") from cause
    return complete


def _entries(members: Mapping[str, bytes]) -> tuple[MemberEntry, ...]:
    return tuple(
        MemberEntry(path=m, bytes=len(members[m]), sha256=hashlib.sha256(members[m]).hexdigest())
        for m in sorted(members)
    )


def _check_size(path: Path, content: Mapping[str, bytes]) -> None:
    total = sum(len(data) + 1024 for data in content.values())
    if total > MAX_ARCHIVE_BYTES:
        raise BundleError(f"{path}: would have {total} bytes; a bundle holds at most {MAX_ARCHIVE_BYTES}.")
    if len(content[MANIFEST_MEMBER]) > MAX_MANIFEST_BYTES:
        raise BundleError(
            f"{path}: its manifest would have {len(content[MANIFEST_MEMBER])} bytes, at most {MAX_MANIFEST_BYTES} "
            "are read back; the net has too many nodes for this version."
        )


def _write_archive(path: Path, content: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name, data in content.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = _UNIX
            entry.external_attr = _REGULAR_FILE
            archive.writestr(entry, data)
