"""Sets that nobody should be warned about: of several kinds, sizes and contracts, dark and misty pictures among them."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from tests.generators.calibration_sets.case import (
    GRAY,
    IMAGENET,
    SIGNED,
    UNIT,
    Case,
    save_boxes,
    save_pictures,
    save_tensors,
    tensor,
)
from tests.generators.calibration_sets.scenes import night, portrait, scene

from fts.vocabulary.preprocessing import Preprocessing

# Yaw of the portraits of a set: 15 frontal, 3 to the side.
YAWS_DEG = (0, 8, -5, 12, -10, 3, -15, 18, 0, -8, 5, -3, 10, -12, 15, 45, -50, 38)
IMAGENET_BGR = Preprocessing(color="bgr", scale=1.0, mean=(103.53, 116.28, 123.675), std=(57.375, 57.12, 58.395))


def mixed_photos(folder: Path) -> Path:
    save_pictures(folder, [scene(100 + i, 150, 200) for i in range(20)])
    return save_pictures(folder, [scene(130 + i, 200, 140) for i in range(12)], suffix=".png", name="q")


def portraits(folder: Path) -> Path:
    made = [portrait(200 + i, yaw_deg=yaw) for i, yaw in enumerate(YAWS_DEG)]
    save_boxes(folder, [face for _, face in made], visible=lambda face, point: (face, point) != (16, 0))
    return save_pictures(folder, [picture for picture, _ in made])


def video_of_many_scenes(folder: Path) -> Path:
    """Frames of 14 scenes; of two scenes a second frame, after a pan by a third of the width."""
    wide = [scene(300 + i, 90, 240) for i in range(14)]
    frames = [picture[:, :160] for picture in wide] + [picture[:, 80:] for picture in wide[:2]]
    return save_pictures(folder, frames, suffix=".png")


def signed_tensors(folder: Path) -> Path:
    return save_tensors(folder, [tensor(scene(400 + i), SIGNED) for i in range(16)])


def unit_tensors(folder: Path) -> Path:
    return save_tensors(folder, [tensor(scene(430 + i), UNIT) for i in range(16)])


def imagenet_bgr_tensors(folder: Path) -> Path:
    return save_tensors(folder, [tensor(scene(460 + i), IMAGENET_BGR) for i in range(16)])


def gray_photos(folder: Path) -> Path:
    pictures = [cv2.cvtColor(scene(500 + i), cv2.COLOR_RGB2GRAY) for i in range(16)]
    return save_pictures(folder, [np.repeat(p[..., None], 3, axis=2) for p in pictures])


def nights_among_days(folder: Path) -> Path:
    save_pictures(folder, [scene(530 + i) for i in range(14)])
    return save_pictures(folder, [night(530 + i) for i in range(7)], suffix=".png", name="night")


def small_but_covering(folder: Path) -> Path:
    save_pictures(folder, [scene(560 + i) for i in range(8)])
    save_pictures(folder, [portrait(560 + i)[0] for i in range(3)], name="face")
    return save_pictures(folder, [night(560)], name="night")


def large(folder: Path) -> Path:
    return save_pictures(folder, [scene(1000 + i, 96, 128) for i in range(200)])


def a_few_odd_ones(folder: Path) -> Path:
    """What a folder of everyday photos contains: a lens cap, a blank page, one copy, one grey picture."""
    pictures = [scene(600 + i) for i in range(36)]
    pictures[5] = np.zeros_like(pictures[5])
    pictures[11] = np.full_like(pictures[11], 255)
    pictures[17] = pictures[16]
    pictures[23] = np.repeat(pictures[23][..., 1:2], 3, axis=2)
    return save_pictures(folder, pictures)


def photos_for_imagenet(folder: Path) -> Path:
    save_pictures(folder, [scene(650 + i) for i in range(16)])
    return save_pictures(folder, [portrait(650 + i)[0] for i in range(8)], name="face")


GOOD_SETS = (
    Case(name="mixed photos", write=mixed_photos),
    Case(name="portraits with boxes", write=portraits, has_faces=True),
    Case(name="video of many scenes", write=video_of_many_scenes),
    Case(name="tensors -1..1", write=signed_tensors, declared=SIGNED),
    Case(name="tensors 0..1", write=unit_tensors),
    Case(name="tensors BGR, ImageNet", write=imagenet_bgr_tensors, declared=IMAGENET_BGR),
    Case(name="grey photos for a grey net", write=gray_photos, declared=GRAY),
    Case(name="nights among days", write=nights_among_days),
    Case(name="small but covering", write=small_but_covering),
    Case(name="200 photos", write=large),
    Case(name="a few odd ones", write=a_few_odd_ones),
    Case(name="photos as the net was trained", write=photos_for_imagenet, declared=IMAGENET, net=IMAGENET),
)
