from __future__ import annotations

import os
import stat
import zipfile
from dataclasses import replace

import pytest

from fts.bundle.write import write_bundle
from fts.errors import BundleError, BundleManifestError


def test_equal_content_gives_equal_bytes_whatever_the_order(tmp_path, kit):
    recipe = kit.Recipe()
    members = recipe.members()
    write_bundle(tmp_path / "a.fts", recipe.manifest(), members)
    write_bundle(tmp_path / "b.fts", recipe.manifest(), dict(reversed(members.items())))
    assert (tmp_path / "a.fts").read_bytes() == (tmp_path / "b.fts").read_bytes()


def test_the_manifest_comes_first_and_the_members_sorted_behind_it(bundle):
    with zipfile.ZipFile(bundle) as archive:
        names = archive.namelist()
        entries = archive.infolist()
    assert names[0] == "manifest.json"
    assert names[1:] == sorted(names[1:])
    assert {e.date_time for e in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {e.compress_type for e in entries} == {zipfile.ZIP_STORED}
    assert {(e.create_system, e.external_attr) for e in entries} == {(3, 0o100644 << 16)}


def test_returns_the_manifest_that_it_wrote(tmp_path, kit):
    from fts.bundle.archive import open_bundle

    written = write_bundle(tmp_path / "a.fts", kit.Recipe().manifest(), kit.Recipe().members())
    assert open_bundle(tmp_path / "a.fts").manifest == written
    assert [m.path for m in written.members] == sorted(kit.Recipe().members())


def test_the_file_has_the_permissions_that_other_new_files_get(bundle, tmp_path):
    (tmp_path / "plain").touch()
    assert stat.S_IMODE(bundle.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(28, "No space left on device"), MemoryError])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(bundle, kit, monkeypatch, failure):
    before = bundle.read_bytes()

    def fail(*_):
        raise failure

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(BundleError if isinstance(failure, OSError) else failure):
        kit.Recipe(met=False).write(bundle)
    assert bundle.read_bytes() == before
    assert list(bundle.parent.iterdir()) == [bundle]


def test_a_missing_folder_is_named(tmp_path, kit):
    with pytest.raises(BundleError, match=r"none/a\.fts: cannot be written: No such file"):
        kit.Recipe().write(tmp_path / "none" / "a.fts")


@pytest.mark.parametrize("name", ["../x", "/x", "manifest.json", "a b"])
def test_refuses_names_that_could_not_be_read_back(tmp_path, kit, name):
    with pytest.raises(ValueError, match="write_bundle: member"):
        kit.Recipe(extra={name: b""}).write(tmp_path / "a.fts")
    assert list(tmp_path.iterdir()) == []


def test_refuses_a_manifest_that_lists_members_already(tmp_path, kit):
    manifest = write_bundle(tmp_path / "a.fts", kit.Recipe().manifest(), kit.Recipe().members())
    with pytest.raises(ValueError, match="must be empty"):
        write_bundle(tmp_path / "b.fts", manifest, kit.Recipe().members())


def test_refuses_a_manifest_whose_engine_has_no_file(tmp_path, kit):
    members = kit.Recipe().members()
    del members["engines/cpu-int8.onnx"]
    with pytest.raises(BundleManifestError, match=r"\$\.engines.*'engines/cpu-int8\.onnx' is not"):
        write_bundle(tmp_path / "a.fts", kit.Recipe().manifest(), members)


def test_refuses_nan_in_the_manifest(tmp_path, kit):
    manifest = replace(kit.Recipe().manifest(), golden={"limit": float("nan")})
    with pytest.raises(ValueError, match="JSON"):
        write_bundle(tmp_path / "a.fts", manifest, kit.Recipe().members())
