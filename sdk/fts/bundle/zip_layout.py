"""The one zip layout that a bundle has, read strictly.

A bundle's archive is plain: stored members one behind the other from byte 0, the central directory directly behind
them, the 22-byte end record last, no comments, no extra fields, and local headers that say what the central directory
says. Every byte outside member data is thereby accounted for, which leaves nothing to central-directory games,
appended or prefixed data, and zip bombs; and no member data is read before the whole layout is known to be sound.

What this does not do: ZIP64 (a bundle stays below 2 GiB), compression, encryption; a file that uses them is no bundle.

Source: PKWARE APPNOTE 6.3.10, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.16 (end record).
"""

from __future__ import annotations

import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from fts.errors import BundleDamagedError, BundleUnsafeError

MAX_ARCHIVE_BYTES = 2**31 - 1
MAX_MEMBERS = 4096
# About 16,000 nodes; ten times the largest net we know of, and parsed well within a second.
MAX_MANIFEST_BYTES = 4 * 2**20
_MAX_NAME = 255
# A central entry is 46 bytes and a name.
_MAX_DIRECTORY_BYTES = MAX_MEMBERS * (46 + _MAX_NAME)

_END = struct.Struct("<4s4H2LH")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_STORED = 0
_ENCRYPTED = 1 | 1 << 6 | 1 << 13

_MEMBER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    """Where the bytes of one member lie in the archive."""

    path: str
    offset: int
    bytes: int
    crc32: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Central:
    name: bytes
    flags: int
    method: int
    time: int
    date: int
    crc32: int
    packed_bytes: int
    bytes: int
    mode: int
    header_offset: int


def unsafe_name_reason(path: str) -> str | None:
    """Why a member may not have this name, or None when it may.

    Names are plain ASCII words joined by single slashes, so that they mean the same on every system.
    """
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        return "an absolute path or a drive"
    if "\\" in path:
        return "a backslash"
    if path.endswith("/"):
        return "a folder"
    if ".." in path.split("/"):
        return "a parent path"
    if len(path) > _MAX_NAME or not _MEMBER_NAME.fullmatch(path):
        return "a name outside letters, digits, '.', '_', '-' and single '/'"
    return None


def stored_members(file: BinaryIO, file_bytes: int, name: str) -> dict[str, StoredMember]:
    """Read the layout of an archive and refuse whatever a bundle never has.

    Args:
        file: The archive, open for reading and seekable.
        file_bytes: Its size.
        name: The bundle's name, for messages.

    Returns:
        Members by path; their data has not been read.

    Raises:
        BundleDamagedError: The archive is cut short, overwritten, or not laid out as a bundle is.
        BundleUnsafeError: A member has a name or a kind that a bundle never holds.
    """
    if file_bytes == 0:
        raise _damaged(name, "the file is empty")
    if file_bytes > MAX_ARCHIVE_BYTES:
        raise _unsafe(name, f"the file has {file_bytes} bytes, at most {MAX_ARCHIVE_BYTES} are expected")
    directory_offset, count, directory = _directory(file, file_bytes, name)
    members: dict[str, StoredMember] = {}
    position = 0
    for entry in sorted(_central_entries(directory, count, name), key=lambda e: e.header_offset):
        path = _checked_path(entry, members, name)
        if entry.header_offset != position:
            raise _damaged(name, f"member {path!r} starts at byte {entry.header_offset}, expected {position}")
        data_offset = position + _LOCAL.size + len(entry.name)
        position = data_offset + entry.bytes
        if position > directory_offset:
            raise _damaged(name, f"member {path!r} ends at byte {position}, behind the members' end {directory_offset}")
        _check_local_header(file, entry, name)
        members[path] = StoredMember(path=path, offset=data_offset, bytes=entry.bytes, crc32=entry.crc32)
    if position != directory_offset:
        raise _damaged(name, f"its members end at byte {position}, its directory starts at {directory_offset}")
    return members


def _directory(file: BinaryIO, file_bytes: int, name: str) -> tuple[int, int, bytes]:
    """Offset of the central directory, its number of entries, and its bytes."""
    if file_bytes < _END.size:
        raise _damaged(name, f"it has {file_bytes} bytes, too few for a bundle")
    file.seek(file_bytes - _END.size)
    magic, disk, start_disk, here, count, size, offset, comment = _END.unpack(file.read(_END.size))
    if magic != b"PK\x05\x06" or comment:
        raise _damaged(name, "the end record of a zip archive is not at its end")
    if disk or start_disk or here != count or offset + size != file_bytes - _END.size:
        raise _damaged(name, "the end record contradicts the file's size")
    if count > MAX_MEMBERS or size > _MAX_DIRECTORY_BYTES:
        raise _unsafe(name, f"it lists {count} members in {size} bytes, at most {MAX_MEMBERS} are expected")
    file.seek(offset)
    return offset, count, file.read(size)


def _central_entries(directory: bytes, count: int, name: str) -> Iterator[_Central]:
    position = 0
    for _ in range(count):
        if position + _CENTRAL.size > len(directory):
            raise _damaged(name, "its directory is cut short")
        (magic, _made_by, _need, flags, method, time, date, crc, packed, size, n_name, n_extra, n_comment, disk, _inner,
         external, offset) = _CENTRAL.unpack_from(directory, position)  # fmt: skip
        position += _CENTRAL.size
        if magic != b"PK\x01\x02" or n_extra or n_comment or disk or position + n_name > len(directory):
            raise _damaged(name, "its directory is not laid out as in a bundle")
        yield _Central(
            name=directory[position : position + n_name],
            flags=flags,
            method=method,
            time=time,
            date=date,
            crc32=crc,
            packed_bytes=packed,
            bytes=size,
            mode=external >> 16,
            header_offset=offset,
        )
        position += n_name
    if position != len(directory):
        raise _damaged(name, "its directory holds more than its members")


def _checked_path(entry: _Central, seen: dict[str, StoredMember], name: str) -> str:
    path = entry.name.decode("utf-8", "backslashreplace")
    reason = unsafe_name_reason(path)
    if reason:
        raise _unsafe(name, f"member {path[:80]!r} has {reason}")
    if path in seen:
        raise _unsafe(name, f"member {path!r} is there twice")
    # The upper half of the attributes is a Unix mode whatever system the entry names: unpackers go by it.
    if stat.S_IFMT(entry.mode) not in (0, stat.S_IFREG):
        raise _unsafe(name, f"member {path!r} is a link or another special file")
    if entry.flags & _ENCRYPTED:
        raise _unsafe(name, f"member {path!r} is encrypted")
    if entry.method != _STORED or entry.packed_bytes != entry.bytes:
        raise _unsafe(name, f"member {path!r} is compressed; members of a bundle are stored")
    if path == "manifest.json" and entry.bytes > MAX_MANIFEST_BYTES:
        raise _unsafe(name, f"manifest.json has {entry.bytes} bytes, at most {MAX_MANIFEST_BYTES} are expected")
    return path


def _check_local_header(file: BinaryIO, entry: _Central, name: str) -> None:
    file.seek(entry.header_offset)
    raw = file.read(_LOCAL.size + len(entry.name))
    expected = (b"PK\x03\x04", entry.flags, _STORED, entry.time, entry.date, entry.crc32, entry.bytes, entry.bytes,
                len(entry.name), 0)  # fmt: skip
    if len(raw) == _LOCAL.size + len(entry.name):
        magic, _need, *rest = _LOCAL.unpack_from(raw)
        if (magic, *rest) == expected and raw[_LOCAL.size :] == entry.name:
            return
    raise _damaged(name, f"the header of member {entry.name.decode('utf-8', 'backslashreplace')[:80]!r} "
                         "contradicts the directory")  # fmt: skip


def _damaged(name: str, found: str) -> BundleDamagedError:
    return BundleDamagedError(
        f"{name}: damaged or incomplete, or not a bundle: {found}. Copy or download it again, or convert again."
    )


def _unsafe(name: str, found: str) -> BundleUnsafeError:
    return BundleUnsafeError(
        f"{name}: {found}, which a bundle never has: the file is hostile, or damaged or incomplete. "
        "Nothing was read from it; get it again from where it was made."
    )
