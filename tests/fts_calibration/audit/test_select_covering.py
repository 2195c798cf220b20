"""--select: deterministic, covering, odd pictures last."""

from __future__ import annotations

import numpy as np
import pytest
from tests.generators.calibration_sets.scenes import night, scene

from fts.vocabulary.preprocessing import Preprocessing
from fts_calibration.audit.look import Look, look_at_picture
from fts_calibration.audit.select_covering import points_of, select_covering


def look(picture: np.ndarray, name: str) -> Look:
    return look_at_picture(name, picture, Preprocessing(), (96, 96))


@pytest.fixture(scope="module")
def many() -> list[Look]:
    """60 pictures: near copies of 10 scenes, and two at night."""
    looks = [look(np.roll(scene(i % 10), i // 10, axis=1), f"s{i % 10}-{i // 10}") for i in range(58)]
    return looks + [look(night(i), f"n{i}") for i in range(2)]


def radius(looks: list[Look], names: tuple[str, ...]) -> float:
    points = points_of(looks)
    chosen = points[[look.path in names for look in looks]]
    return float(np.linalg.norm(points[:, None] - chosen[None], axis=2).min(axis=1).max())


def test_one_of_each_scene_is_chosen(many: list[Look]) -> None:
    selection = select_covering(many, 12)
    assert {name.split("-")[0] for name in selection.names} == {*(f"s{i}" for i in range(10)), "n0", "n1"}


def test_the_radius_is_what_it_says_and_beats_chance(many: list[Look]) -> None:
    selection = select_covering(many, 12)
    assert selection.radius == pytest.approx(radius(many, selection.names), abs=1e-6)
    rng = np.random.default_rng(0)
    names = [look.path for look in many]
    by_chance = [radius(many, tuple(rng.choice(names, 12, replace=False))) for _ in range(200)]
    assert selection.radius <= min(by_chance)


def test_the_order_of_the_files_does_not_matter(many: list[Look]) -> None:
    shuffled = [many[i] for i in np.random.default_rng(1).permutation(len(many))]
    assert select_covering(shuffled, 9) == select_covering(many, 9)


def test_noise_and_lens_caps_are_chosen_when_nothing_else_is_left() -> None:
    noise = np.random.default_rng(2).integers(0, 256, (96, 128, 3), np.uint8)
    looks = [look(noise, "noise"), look(np.zeros_like(noise), "cap"), *(look(scene(i), f"s{i}") for i in range(4))]
    assert set(select_covering(looks, 4).names) == {"s0", "s1", "s2", "s3"}
    assert set(select_covering(looks, 6).names) == {look.path for look in looks}
