"""Open a bundle: nothing in it is believed before it was checked, and nothing is ever written or executed.

Order of checks, so that the first thing wrong is the one reported: the archive's structure and names (`zip_layout`),
the checksum of manifest.json, its format_version (a mismatch wins over whatever else differs in another format), sizes
and sha256 of every member with none missing and none besides, and last the manifest's content.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fts.bundle.json_reader import json_from_text
from fts.bundle.manifest_json import check_format_version, manifest_from_document, member_entries_from_document
from fts.bundle.zip_layout import StoredMember, stored_members
from fts.errors import BundleDamagedError, BundleError, BundleNotFoundError
from fts.vocabulary.manifest import MANIFEST_MEMBER, Manifest, MemberEntry

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle whose every byte was checked when it was opened.

    Attributes:
        path: The file.
        manifest: Its manifest.
    """

    path: Path
    manifest: Manifest
    _layout: Mapping[str, StoredMember]

    def read(self, member: str) -> bytes:
        """Bytes of one member; checked again, because the file may have changed since it was opened.

        Raises:
            KeyError: The manifest lists no such member.
            BundleDamagedError: The file changed since it was opened.
        """
        entries = {m.path: m for m in self.manifest.members}
        if member not in entries:
            raise KeyError(f"{self.path.name} has no member {member!r}; it has {', '.join(sorted(entries))}")
        try:
            with open(self.path, "rb") as file:
                data = _read(file, self._layout[member])
        except OSError as cause:
            raise _unreadable(self.path, cause) from cause
        if hashlib.sha256(data).hexdigest() != entries[member].sha256:
            raise _wrong_hash(self.path.name, member)
        return data


def open_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Check a bundle file from end to end and parse its manifest.

    Args:
        path: The `.fts` file.

    Returns:
        The bundle, ready to read members from.

    Raises:
        BundleNotFoundError: There is no such file.
        BundleDamagedError: It is cut short, overwritten, or no bundle at all.
        BundleUnsafeError: It holds what a bundle never does.
        BundleVersionError: It has another format version.
        BundleManifestError: Its manifest is not valid.
        BundleError: It cannot be read.
    """
    bundle_path = Path(path)
    try:
        info = os.stat(bundle_path)
        if not stat.S_ISREG(info.st_mode):
            raise BundleError(f"{bundle_path}: found a folder or a special file, expected a bundle file (.fts)")
        with open(bundle_path, "rb") as file:
            return _checked_bundle(file, bundle_path, info.st_size)
    except (FileNotFoundError, NotADirectoryError) as cause:
        raise BundleNotFoundError(f"{bundle_path}: no such file. Give the path of a bundle (.fts).") from cause
    except OSError as cause:
        raise _unreadable(bundle_path, cause) from cause


def _checked_bundle(file: BinaryIO, path: Path, file_bytes: int) -> Bundle:
    name = path.name
    layout = stored_members(file, file_bytes, name)
    if MANIFEST_MEMBER not in layout:
        raise BundleDamagedError(f"{name}: no {MANIFEST_MEMBER} in it; damaged or incomplete, or not a bundle.")
    raw = _read(file, layout[MANIFEST_MEMBER])
    if zlib.crc32(raw) != layout[MANIFEST_MEMBER].crc32:
        raise BundleDamagedError(f"{name}: the checksum of {MANIFEST_MEMBER} is wrong: damaged or incomplete.")
    document = json_from_text(_text(raw, name), name)
    check_format_version(document, name)
    _check_members(file, layout, member_entries_from_document(document), name)
    return Bundle(path=path.absolute(), manifest=manifest_from_document(document), _layout=layout)


def _check_members(
    file: BinaryIO, layout: Mapping[str, StoredMember], entries: tuple[MemberEntry, ...], name: str
) -> None:
    listed = {e.path: e for e in entries}
    missing = sorted(set(listed) - set(layout))
    foreign = sorted(set(layout) - set(listed) - {MANIFEST_MEMBER})
    if missing or foreign:
        texts = [f"lacks {m!r}" for m in missing[:3]] + [f"holds {f!r}, which its manifest lacks" for f in foreign[:3]]
        raise BundleDamagedError(f"{name}: damaged or incomplete: it {', '.join(texts)}.")
    for path, entry in listed.items():
        if layout[path].bytes != entry.bytes:
            raise BundleDamagedError(
                f"{name}: damaged or incomplete: member {path!r} has {layout[path].bytes} bytes, "
                f"expected {entry.bytes}."
            )
    for path, entry in listed.items():
        if _sha256(file, layout[path]) != entry.sha256:
            raise _wrong_hash(name, path)


def _sha256(file: BinaryIO, member: StoredMember) -> str:
    digest = hashlib.sha256()
    file.seek(member.offset)
    left = member.bytes
    while left:
        chunk = file.read(min(_CHUNK_BYTES, left))
        if not chunk:
            break
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest()


def _read(file: BinaryIO, member: StoredMember) -> bytes:
    file.seek(member.offset)
    return file.read(member.bytes)


def _text(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as cause:
        raise BundleDamagedError(f"{name}: {MANIFEST_MEMBER} is not UTF-8 text: damaged or incomplete.") from cause


def _wrong_hash(name: str, member: str) -> BundleDamagedError:
    return BundleDamagedError(
        f"{name}: damaged or incomplete: the sha256 of member {member!r} is not the one in its manifest. "
        "Copy or download it again, or convert again."
    )


def _unreadable(path: Path, cause: OSError) -> BundleError:
    return BundleError(f"{path}: cannot be read: {cause.strerror or cause}")
