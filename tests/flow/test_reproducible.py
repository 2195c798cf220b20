"""The same inputs give the same bytes, wherever, whenever and under whatever name they are converted."""

from __future__ import annotations

import getpass
import hashlib
import json
import shutil
from pathlib import Path

from fts.bundle.archive import open_bundle

from .conftest import TARGET, Converted, Run, convert_in_process_of_its_own
from .nets import PICTURE, TENSOR, save_net, save_pictures

# A budget that INT8 misses: units are measured one by one, and the report lists what each one loses.
HARD = ("--budget", "psnr>=60")


def test_other_folder_name_hash_seed_and_cache_give_the_same_bytes(tmp_path: Path) -> None:
    bundles = []
    for number, (stem, seed) in enumerate((("one", "0"), ("another", "4242"))):
        home = tmp_path / f"home{number}"
        home.mkdir()
        save_net(home / "net.onnx", PICTURE)
        save_pictures(home / "photos", 8)
        arguments = ("net.onnx", *TARGET, "--calib", "photos", *HARD, "-o", f"out/{stem}.fts")
        cache = str(tmp_path / f"cache{number}")
        done = convert_in_process_of_its_own(*arguments, cwd=home, FTS_CACHE=cache, PYTHONHASHSEED=seed)
        assert done.code == 3, done.err
        bundles.append((home / f"out/{stem}.below-budget.fts").read_bytes())
    assert bundles[0] == bundles[1]


def test_absolute_paths_and_a_warm_cache_give_the_same_bytes(
    converted: Converted, place: Path, fts_convert: Run
) -> None:
    expected = converted.bundle.read_bytes()
    for name in ("cold", "warm"):
        done = fts_convert(converted.folder / "net.onnx", "--calib", converted.photos, "-o", place / f"{name}.fts")
        assert done.code == 0, done.err
        assert (place / f"{name}.fts").read_bytes() == expected, name


def test_names_and_order_of_pictures_change_no_decision(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", PICTURE)
    first = save_pictures(place / "first", 6)
    renamed = place / "renamed"
    renamed.mkdir()
    for number, picture in enumerate(sorted(first.iterdir(), reverse=True)):
        shutil.copyfile(picture, renamed / f"{number}.png")
    engines = []
    for folder in (first, renamed):
        assert fts_convert("net.onnx", "--calib", folder, "-o", f"{folder.name}.fts").code == 0
        engines.append(open_bundle(place / f"{folder.name}.fts").read("engines/cpu-int8.onnx"))
    assert engines[0] == engines[1]


def test_neither_path_nor_output_name_nor_user_is_inside(place: Path, fts_convert: Run) -> None:
    save_net(place / "net.onnx", TENSOR)
    save_pictures(place / "secret-folder", 4)
    assert fts_convert(place / "net.onnx", "--calib", place / "secret-folder", "-o", "distinct-name.fts").code == 0
    data = (place / "distinct-name.fts").read_bytes()
    found = [word for word in (str(place), "secret-folder", "distinct-name", f"/{getpass.getuser()}/", "/tmp/")
             if word.encode() in data]  # fmt: skip
    assert not found
    assert b"net.onnx" in data  # the search would find what is there


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_another_way_to_fit_is_never_answered_from_the_cache(place: Path, fts_convert: Run) -> None:
    """All pictures but the one of the select split have the net's size, so both runs calibrate and encode alike."""
    save_net(place / "net.onnx", PICTURE)
    photos = sorted(save_pictures(place / "photos", 4).iterdir(), key=sha256_of)
    after, before = sha256_of(photos[1]), sha256_of(photos[3])
    wide = save_pictures(place / "wide", 40, width=40).iterdir()
    third_in_order = next(w for w in wide if after < sha256_of(w) < before)  # calibrate, calibrate, select, verify
    photos[2].write_bytes(third_in_order.read_bytes())

    def selected(*arguments: object) -> float:
        done = fts_convert("net.onnx", "--calib", "photos", "--json", *arguments)
        (value,) = [m["min"] for m in json.loads(done.out)["metrics"] if m["split"] == "select"]
        return float(value)

    letterbox = selected("--fit", "letterbox")
    stretch = selected("--fit", "stretch")
    assert stretch == selected("--fit", "stretch", "--no-cache")
    assert stretch != letterbox
