"""The sets are what their names say, before anything judges them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.generators.calibration_sets.bad_sets import BAD_SETS
from tests.generators.calibration_sets.case import IMAGENET, UNIT, Case, tensor
from tests.generators.calibration_sets.good_sets import GOOD_SETS
from tests.generators.calibration_sets.scenes import Picture, night, portrait, scene
from tests.generators.calibration_sets.trained_net import trained_net
from tests.generators.run_plain import run_plain

from fts.errors import CalibrationError
from fts_calibration.dataset.source import open_calibration


def test_there_are_at_least_24_bad_and_8_good_sets_of_different_names() -> None:
    assert len(BAD_SETS) >= 24
    assert len(GOOD_SETS) >= 8
    assert len({case.name for case in (*BAD_SETS, *GOOD_SETS)}) == len(BAD_SETS) + len(GOOD_SETS)
    assert all(case.expected for case in BAD_SETS)
    assert not any(case.expected or case.allowed for case in GOOD_SETS)


@pytest.mark.parametrize("case", [*BAD_SETS, *GOOD_SETS], ids=lambda case: case.name)
def test_a_set_opens_or_is_refused_as_it_says(case: Case, tmp_path: Path) -> None:
    path = str(case.write(tmp_path))
    if case.is_refused:
        with pytest.raises(CalibrationError):
            open_calibration(path, [case.request])
    else:
        assert open_calibration(path, [case.request]).samples
    assert (tmp_path / "boxes.json").is_file() == case.has_faces


@pytest.mark.parametrize("make", [scene, night, lambda seed: portrait(seed)[0]], ids=["scene", "night", "portrait"])
def test_a_seed_gives_the_same_picture_every_time(make: Callable[[int], Picture]) -> None:
    assert np.array_equal(make(5), make(5))
    assert not np.array_equal(make(5), make(6))


@pytest.mark.parametrize("make", [scene, lambda seed: portrait(seed)[0]], ids=["scene", "portrait"])
def test_pictures_have_neighbours_that_agree_and_a_spectrum_that_falls(make: Callable[[int], Picture]) -> None:
    luma = np.stack([make(seed).mean(axis=2) for seed in range(8)])
    luma -= luma.mean(axis=(1, 2), keepdims=True)
    correlation = (luma[:, :, 1:] * luma[:, :, :-1]).sum() / (luma**2).sum()
    assert correlation > 0.8
    power = (np.abs(np.fft.rfft(luma, axis=2)) ** 2).mean(axis=(0, 1))
    assert power[1:5].mean() > 50 * power[-20:].mean()


def test_the_trained_net_sees_normal_values_behind_its_batch_norms() -> None:
    net = trained_net(IMAGENET)
    watched = type(net)()
    watched.CopyFrom(net)
    watched.graph.output.add().name = "b"
    seen = np.stack([run_plain(watched, {"x": tensor(scene(seed), IMAGENET)})[-1] for seed in range(8)])
    wrong = np.stack([run_plain(watched, {"x": tensor(scene(seed), UNIT)})[-1] for seed in range(8)])
    assert 0.5 < seen.std(axis=(0, 1, 3, 4)).mean() < 1.5
    assert wrong.std(axis=(0, 1, 3, 4)).mean() < 0.5 * seen.std(axis=(0, 1, 3, 4)).mean()
