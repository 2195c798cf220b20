from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import fts
from fts.bundle.archive import open_bundle
from fts.bundle.zip_layout import MAX_MANIFEST_BYTES, unsafe_name_reason
from fts.errors import (
    BundleDamagedError,
    BundleError,
    BundleManifestError,
    BundleNotFoundError,
    BundleUnsafeError,
    BundleVersionError,
)
from fts.vocabulary.manifest import PORTABLE_MEMBER

HOSTILE_SECONDS = 2.0


def content(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {i.filename: archive.read(i) for i in archive.infolist()}


def rezip(path: Path, members: dict[str, bytes], **entry: int) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            for key, value in entry.items():
                setattr(info, key, value)
            archive.writestr(info, data)
    return path


def edit_manifest(path: Path, change: Callable[[dict[str, object]], object]) -> Path:
    members = content(path)
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    members["manifest.json"] = json.dumps(manifest).encode()
    return rezip(path, members)


def test_reads_back_what_was_written(bundle, kit):
    opened = open_bundle(bundle)
    assert opened.path == bundle
    assert opened.manifest.target == "cpu-int8"
    for member, data in kit.Recipe().members().items():
        assert opened.read(member) == data


def test_names_the_members_when_one_is_asked_for_that_is_not_there(bundle):
    with pytest.raises(KeyError, match=r"no member 'x\.bin'; it has .*golden\.npz"):
        open_bundle(bundle).read("x.bin")


def test_notices_a_file_that_changed_after_it_was_opened(bundle):
    opened = open_bundle(bundle)
    data = bytearray(bundle.read_bytes())
    data[data.index(b"negative")] ^= 1
    bundle.write_bytes(data)
    with pytest.raises(BundleDamagedError, match="damaged or incomplete"):
        [opened.read(m.path) for m in opened.manifest.members]


def test_says_when_there_is_no_file(tmp_path):
    with pytest.raises(BundleNotFoundError, match=r"none\.fts: no such file"):
        open_bundle(tmp_path / "none.fts")


def test_says_when_the_path_is_a_folder(tmp_path):
    with pytest.raises(BundleError, match="found a folder or a special file, expected a bundle file"):
        open_bundle(tmp_path)


def test_does_not_wait_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe.fts")
    with pytest.raises(BundleError, match="special file"):
        open_bundle(tmp_path / "pipe.fts")


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_says_damaged_or_incomplete_when_the_file_is_cut_short(bundle, keep):
    os.truncate(bundle, int(bundle.stat().st_size * keep))
    with pytest.raises(BundleDamagedError, match=r"net\.cpu-int8\.fts: damaged or incomplete"):
        open_bundle(bundle)


@pytest.mark.parametrize("form", ["prefix", "suffix", "comment"])
def test_refuses_bytes_around_the_archive(bundle, form):
    data = bundle.read_bytes()
    changed = {"prefix": b"#!/bin/sh\n" + data, "suffix": data + b"\0", "comment": data[:-2] + b"\x02\x00hi"}
    bundle.write_bytes(changed[form])
    with pytest.raises(BundleDamagedError, match="damaged or incomplete"):
        open_bundle(bundle)


def test_refuses_a_file_that_is_no_archive(tmp_path):
    path = tmp_path / "photo.fts"
    path.write_bytes(b"\xff\xd8\xff" + b"0123456789" * 50)
    with pytest.raises(BundleDamagedError, match=r"photo\.fts: damaged or incomplete, or not a bundle"):
        open_bundle(path)


@pytest.mark.parametrize(("mask", "step"), [(None, 1), (0xFF, 5)], ids=["one bit of each byte", "whole bytes"])
def test_every_flipped_byte_is_refused_or_changes_nothing(tmp_path, kit, mask, step):
    path = kit.Recipe(extra={"engines/side.bin": b"\0" * 64}).write(tmp_path / "net.cpu-int8.fts")
    sound = open_bundle(path)
    expected = {m.path: sound.read(m.path) for m in sound.manifest.members}
    data = bytearray(path.read_bytes())
    accepted = 0
    for i in range(0, len(data), step):
        flip = (1 << i % 8) if mask is None else mask
        data[i] ^= flip
        path.write_bytes(data)
        data[i] ^= flip
        try:
            opened = open_bundle(path)
        except BundleError:
            continue
        accepted += 1
        assert opened.manifest == sound.manifest, f"byte {i}"
        assert {m.path: opened.read(m.path) for m in opened.manifest.members} == expected, f"byte {i}"
    # Only fields of the headers that say nothing about content are free: versions needed, attributes.
    assert accepted < 20 * (len(expected) + 1)


def test_refuses_a_member_whose_hash_is_not_the_manifest_s(bundle):
    members = content(bundle)
    members[PORTABLE_MEMBER] = members[PORTABLE_MEMBER][:-1] + b"?"
    with pytest.raises(BundleDamagedError, match=r"damaged or incomplete: the sha256 of member 'model/portable\.onnx'"):
        open_bundle(rezip(bundle, members))


def test_refuses_a_member_whose_size_is_not_the_manifest_s(bundle):
    members = content(bundle)
    members["golden.npz"] += b"\0"
    with pytest.raises(BundleDamagedError, match=r"member 'golden\.npz' has \d+ bytes, expected \d+"):
        open_bundle(rezip(bundle, members))


def test_refuses_a_bundle_that_lacks_a_member(bundle):
    members = content(bundle)
    del members["golden.npz"]
    with pytest.raises(BundleDamagedError, match=r"damaged or incomplete: it lacks 'golden\.npz'"):
        open_bundle(rezip(bundle, members))


def test_refuses_a_member_that_the_manifest_does_not_list(bundle):
    members = content(bundle) | {"extra.pkl": b"cposix\nsystem\n."}
    with pytest.raises(BundleDamagedError, match=r"holds 'extra\.pkl', which its manifest lacks"):
        open_bundle(rezip(bundle, members))


def test_refuses_an_archive_without_a_manifest(bundle):
    members = content(bundle)
    del members["manifest.json"]
    with pytest.raises(BundleDamagedError, match=r"no manifest\.json"):
        open_bundle(rezip(bundle, members))


def test_refuses_a_manifest_that_is_not_text(bundle):
    with pytest.raises(BundleDamagedError, match="not UTF-8"):
        open_bundle(rezip(bundle, content(bundle) | {"manifest.json": b"\xff{}"}))


@pytest.mark.parametrize("text", ["[]", "{}", "null", '{"format_version": 1', "[" * 100_000, '{"format_version": NaN'])
def test_refuses_a_manifest_that_is_no_manifest(bundle, text):
    with pytest.raises(BundleManifestError, match=r"net\.cpu-int8\.fts"):
        open_bundle(rezip(bundle, content(bundle) | {"manifest.json": text.encode()}))


# --- another version --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [999, "999.0.0", 0, 1.0, True, None])
def test_another_version_wins_over_everything_that_differs_with_it(bundle, version):
    def change(manifest):
        manifest["format_version"] = version
        manifest["members"] = "somewhere else in that version"

    edit_manifest(bundle, change)
    with pytest.raises(BundleVersionError) as caught:
        open_bundle(bundle)
    text = str(caught.value)
    assert text.startswith("net.cpu-int8.fts: ")
    assert json.dumps(version) in text
    assert "format version 1." in text
    assert "Convert again" in text


def test_a_sound_bundle_loads_in_the_process_that_refused_another(bundle, tmp_path, kit):
    other = edit_manifest(kit.Recipe().write(tmp_path / "other.fts"), lambda m: m.update(format_version=999))
    with pytest.raises(fts.BundleVersionError, match="999"):
        fts.load(other)
    with fts.load(bundle) as model:
        assert model.target == "cpu-int8"


# --- hostile ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../slip.txt", "a parent path"),
        ("a/../../slip.txt", "a parent path"),
        ("/etc/cron.d/x", "an absolute path"),
        ("C:/x", "a drive"),
        ("a\\..\\b", "a backslash"),
        ("folder/", "a folder"),
        ("a//b", "outside letters"),
        (".hidden", "outside letters"),
        ("a\nb", "outside letters"),
        ("büro.onnx", "outside letters"),
        ("x" * 256, "outside letters"),
    ],
)
def test_refuses_names_that_lead_elsewhere(bundle, tmp_path, monkeypatch, name, reason):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    rezip(bundle, content(bundle) | {name: b"canary\n"})
    with pytest.raises(BundleUnsafeError, match=reason) as caught:
        open_bundle(bundle)
    assert "net.cpu-int8.fts" in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == sorted([bundle, tmp_path / "empty"])


@pytest.mark.parametrize("name", ["manifest.json", "engines/cpu-int8.onnx", "report/report.json", "a_b-c.1/D"])
def test_allows_the_names_that_bundles_have(name):
    assert unsafe_name_reason(name) is None


def test_refuses_a_link(bundle):
    rezip(bundle, content(bundle), external_attr=0o120777 << 16, create_system=3)
    with pytest.raises(BundleUnsafeError, match="is a link or another special file"):
        open_bundle(bundle)


def test_refuses_the_same_name_twice(bundle):
    with zipfile.ZipFile(bundle, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("golden.npz", b"second")
    with pytest.raises(BundleUnsafeError, match=r"'golden\.npz' is there twice"):
        open_bundle(bundle)


def test_refuses_compressed_members_before_they_are_unpacked(bundle):
    with zipfile.ZipFile(bundle, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.bin", b"\0" * 50_000_000)
    with pytest.raises(BundleUnsafeError, match=r"'bomb\.bin' is compressed; members of a bundle are stored"):
        open_bundle(bundle)


def directory_field(data: bytes, name: bytes, offset: int) -> int:
    """Position of a field in the central directory's entry of a member."""
    position = data.rindex(name) - 46
    assert data[position : position + 4] == b"PK\x01\x02"
    return position + offset


@pytest.mark.parametrize(
    ("offset", "value", "error"),
    [
        (8, struct.pack("<H", 1), BundleUnsafeError),  # encrypted
        (20, struct.pack("<LL", 1, 1), BundleDamagedError),  # sizes that leave a gap
        (20, struct.pack("<LL", 2**31, 2**31), BundleDamagedError),  # sizes beyond the file
        (30, struct.pack("<H", 4), BundleDamagedError),  # an extra field
        (42, struct.pack("<L", 0), BundleDamagedError),  # two entries for one offset
        (42, struct.pack("<L", 2**32 - 1), BundleDamagedError),  # an offset behind the end
    ],
)
def test_refuses_games_in_the_central_directory(bundle, offset, value, error):
    data = bytearray(bundle.read_bytes())
    position = directory_field(bytes(data), b"golden.npz", offset)
    data[position : position + len(value)] = value
    bundle.write_bytes(data)
    with pytest.raises(error, match=r"net\.cpu-int8\.fts.*damaged or incomplete"):
        open_bundle(bundle)


def test_refuses_a_local_header_that_contradicts_the_central_one(bundle):
    data = bytearray(bundle.read_bytes())
    data[data.index(b"golden.npzPK")] = ord("G")  # the local header's name, with its data behind it
    bundle.write_bytes(data)
    with pytest.raises(BundleDamagedError, match=r"header of member 'golden\.npz' contradicts the directory"):
        open_bundle(bundle)


def zeros_2_gb(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(2_000_000_000)


def zeros_3_gb(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(3_000_000_000)


def manifest_1_gb(path: Path) -> None:
    size = 1_000_000_000
    name = b"manifest.json"
    with open(path, "wb") as file:
        file.write(struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 0, 0, 33, 0, size, size, len(name), 0) + name)
        start = file.tell() + size
        file.seek(start)
        entry = struct.pack(
            "<4s6H3L5H2L", b"PK\x01\x02", 788, 20, 0, 0, 0, 33, 0, size, size, len(name), 0, 0, 0, 0, 0, 0
        )
        file.write(entry + name)
        file.write(struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(entry + name), start, 0))


def endless_directory(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(1_500_000_000)
        file.seek(1_500_000_000)
        file.write(struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65535, 65535, 1_500_000_000, 0, 0))


def largest_manifest_of_lists(path: Path) -> None:
    rezip(
        path,
        {"manifest.json": b'{"format_version": 1, "members": [' + b"[]," * (MAX_MANIFEST_BYTES // 3 - 20) + b"[]]}"},
    )


def largest_manifest_of_objects(path: Path) -> None:
    rezip(
        path,
        {"manifest.json": b'{"format_version": 1, "members": [' + b"{}," * (MAX_MANIFEST_BYTES // 3 - 20) + b"[]]}"},
    )


@pytest.mark.parametrize(
    "build",
    [zeros_2_gb, zeros_3_gb, manifest_1_gb, endless_directory, largest_manifest_of_lists, largest_manifest_of_objects],
    ids=lambda b: b.__name__,
)
def test_a_hostile_file_ends_quickly_in_a_bundle_error(tmp_path, build):
    path = tmp_path / "hostile.fts"
    build(path)
    code = (
        "import sys, time, fts\nfrom fts.bundle.archive import open_bundle\n"
        "begin = time.monotonic()\n"
        "try: open_bundle(sys.argv[1])\n"
        "except fts.BundleError as e: print(time.monotonic() - begin, e)\n"
    )
    out = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60, check=True)
    seconds, _, text = out.stdout.partition(" ")
    assert "hostile.fts" in text
    assert float(seconds) < HOSTILE_SECONDS, text


def test_opening_a_bundle_of_pickles_runs_none(bundle, tmp_path, monkeypatch):
    import pickle

    class Canary:
        def __reduce__(self):
            return os.mkdir, ("canary",)

    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    evil = pickle.dumps(Canary())
    rezip(bundle, {n: evil if n.endswith(".npz") else d for n, d in content(bundle).items()})
    with pytest.raises(BundleDamagedError):
        open_bundle(bundle)
    assert list(Path().iterdir()) == []
