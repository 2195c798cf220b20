"""Pictures for people, beside the report: input | FP32 | the engine in one, and each alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fts.imaging.decode import write_image
from fts.imaging.fit import FitTransform
from fts.imaging.opencv import cv2
from fts.imaging.postprocess import frame_from_tensor
from fts.vocabulary.manifest import InputEntry, Manifest, OutputEntry
from fts.vocabulary.preprocessing import Layout

CAPTION_PX = 24
ROLES = ("input", "fp32", "engine")

Feed = Mapping[str, npt.NDArray[np.generic]]
Picture = npt.NDArray[np.uint8]


def write_side_by_side(path: Path, manifest: Manifest, feed: Feed, fp32: Feed, engine: Feed) -> bool:
    """Write `<name>.png`, and `<name>_input.png`, `<name>_fp32.png`, `<name>_engine.png` of the same size without captions.

    The first image input and output are shown.

    Returns:
        False when the net has no picture in or out, and nothing was written.
    """
    source = next((i for i in manifest.inputs if i.kind == "image"), None)
    target = next((o for o in manifest.outputs if o.kind == "image"), None)
    if source is None or target is None or source.preprocessing is None:
        return False
    outputs = [_output_picture(target, source, f[target.name]) for f in (fp32, engine)]
    height, width = outputs[0].shape[:2]
    shown = cv2.resize(_input_picture(source, feed[source.name]), (width, height), interpolation=cv2.INTER_AREA)
    pictures = (shown, *outputs)
    labels = ("input", "FP32", manifest.target)
    write_image(path, np.hstack([_captioned(p, t) for p, t in zip(pictures, labels, strict=True)]))
    for picture, role in zip(pictures, ROLES, strict=True):
        write_image(path.with_name(f"{path.stem}_{role}.png"), picture)
    return True


def _input_picture(entry: InputEntry, tensor: npt.NDArray[np.generic]) -> Picture:
    """Undo (pixel * scale - mean) / std; one range per channel, so channels go one by one."""
    pre = entry.preprocessing
    assert pre is not None
    planes = tensor[0] if pre.layout == "nchw" else np.moveaxis(tensor[0], -1, 0)  # (C, H, W)
    mean, std = (np.array(v, np.float64)[:, None, None] for v in (pre.mean, pre.std))
    pixels = np.clip(np.rint((planes.astype(np.float64) * std + mean) / pre.scale), 0, 255).astype(np.uint8)
    return frame_from_tensor(pixels[None], "nchw", pre.color, (0.0, 255.0), _identity(*pixels.shape[1:]))


def _output_picture(entry: OutputEntry, source: InputEntry, tensor: npt.NDArray[np.generic]) -> Picture:
    assert source.preprocessing is not None
    layout: Layout = "nchw" if tensor.shape[1] in (1, 3) else "nhwc"
    height, width = tensor.shape[2:] if layout == "nchw" else tensor.shape[1:3]
    bounds = entry.range or (0.0, 255.0)
    return frame_from_tensor(tensor, layout, source.preprocessing.color, bounds, _identity(height, width))


def _identity(height: int, width: int) -> FitTransform:
    box = (0, 0, width, height)
    return FitTransform(
        frame_height_px=height,
        frame_width_px=width,
        net_height_px=height,
        net_width_px=width,
        frame_box=box,
        net_box=box,
    )


def _captioned(picture: Picture, text: str) -> Picture:
    bar = np.full((CAPTION_PX, picture.shape[1], 3), 32, np.uint8)
    cv2.putText(bar, text, (6, CAPTION_PX - 8), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (240, 240, 240), 1, cv2.LINE_AA)
    return np.vstack([bar, picture])
