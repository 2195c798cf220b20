"""Metrics of tasks against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fts.errors import UsageError
from fts_calibration.metrics.age_error import CEILING_YEARS, age_error, why_no_age
from fts_calibration.metrics.known_metrics import METRICS
from fts_calibration.metrics.landmark_error import CEILING, landmark_error, why_no_landmarks
from fts_calibration.metrics.mask_overlap import mask_overlap, why_no_masks
from fts_calibration.metrics.output_meaning import UNDECLARED, OutputMeaning
from fts_calibration.metrics.relative_noise import relative_noise
from fts_calibration.metrics.top1 import top1_agreement, why_no_classes


def f32(*values: object) -> np.ndarray:
    return np.array(values, np.float32)


# --- landmarks ----------------------------------------------------------------------------------------------------------

FACE = f32([0, 0, 6, 0, 3, 8])  # eyes 6 apart, box 6 x 8: its diagonal is 10


def test_landmark_error_by_hand():
    moved = FACE + f32([3, 4, 0, 0, 0, 0])  # one of three points by 5
    assert landmark_error(FACE, moved, UNDECLARED) == pytest.approx(5 / 3 / 10)
    assert landmark_error(FACE, moved, OutputMeaning(eyes=((0,), (1,)))) == pytest.approx(5 / 3 / 6)
    assert landmark_error(FACE, moved, OutputMeaning(eyes=((0, 2), (1, 2)))) == pytest.approx(
        5 / 3 / 3
    )  # centres 3 apart
    assert landmark_error(FACE.reshape(1, 3, 2), moved.reshape(1, 3, 2), UNDECLARED) == pytest.approx(5 / 3 / 10)
    assert landmark_error(FACE[0], moved[0], UNDECLARED) == pytest.approx(5 / 3 / 10)  # no axis of faces


def test_landmark_error_reads_other_orders_of_coordinates():
    planar, moved = f32([0, 6, 3, 0, 0, 8]), f32([3, 6, 3, 4, 0, 8])
    assert landmark_error(planar, moved, OutputMeaning(landmarks="planar")) == pytest.approx(5 / 3 / 10)
    third = [f32([0, 0, s, 6, 0, s, 3 + d, 8, s]) for s, d in ((1, 0), (77, 6))]  # scores are no positions
    assert landmark_error(*third, OutputMeaning(landmarks="xyz")) == pytest.approx(6 / 3 / 10)


def test_landmark_error_is_the_mean_over_faces():
    faces = np.concatenate([FACE, FACE])
    moved = faces + f32([3, 4, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0])
    assert landmark_error(faces, moved, UNDECLARED) == pytest.approx(5 / 3 / 10 / 2)


def test_landmark_error_ends():
    assert landmark_error(FACE, FACE, UNDECLARED) == 0.0
    assert landmark_error(FACE, FACE * np.nan, UNDECLARED) == CEILING
    assert landmark_error(FACE, np.full_like(FACE, np.inf), UNDECLARED) == CEILING
    assert landmark_error(FACE, FACE + 1e9, UNDECLARED) == CEILING
    point = f32([1, 1, 1, 1])
    assert landmark_error(point, point, UNDECLARED) == 0.0
    assert landmark_error(point, point + 1, UNDECLARED) == CEILING  # a face without size
    assert landmark_error(f32().reshape(0, 4), f32().reshape(0, 4), UNDECLARED) == 0.0  # no face
    aside = f32([0, 0, 0, 0, 3, 4])  # the eyes coincide: the diagonal stands in
    assert landmark_error(aside, aside + f32([0, 0, 0, 0, 3, 0]), OutputMeaning(eyes=((0,), (1,)))) == pytest.approx(
        1 / 5
    )


@pytest.mark.parametrize(
    ("shape", "meaning", "says"),
    [
        ((1, 10), UNDECLARED, ""),
        ((1, 5, 2), UNDECLARED, ""),
        ((10,), UNDECLARED, ""),
        ((None, 10), UNDECLARED, ""),
        ((1, None), UNDECLARED, ""),
        ((1, 15), OutputMeaning(landmarks="xyz"), ""),
        ((1, 7), UNDECLARED, "7 numbers a face"),
        ((1, 2), UNDECLARED, "2 numbers a face"),
        ((1, 10), OutputMeaning(landmarks="xyz"), "not two or more points of 3 each"),
        ((1, 10), OutputMeaning(eyes=((0,), (5,))), "point 5 of 5"),
        ((), UNDECLARED, "one number"),
    ],
)
def test_which_outputs_hold_landmarks(shape, meaning, says):
    found = why_no_landmarks(shape, meaning)
    assert (found == "") == (says == "")
    assert says in found


# --- age ----------------------------------------------------------------------------------------------------------------


def test_age_error_by_hand():
    assert age_error(f32([30.0]), f32([32.5]), UNDECLARED) == pytest.approx(2.5)
    assert age_error(np.float32(30), np.float32(27), UNDECLARED) == pytest.approx(3.0)
    assert age_error(f32([30.0], [40.0]), f32([31.0], [43.0]), UNDECLARED) == pytest.approx(2.0)
    classes = f32([0.5, 0.5, 0.0, 0.0]), f32([0.0, 0.0, 0.5, 0.5])
    assert age_error(*classes, UNDECLARED) == pytest.approx(2.0)
    assert age_error(*classes, OutputMeaning(ages=(20, 30, 40, 50))) == pytest.approx(20.0)
    assert age_error(classes[0].T, classes[1].T, OutputMeaning(axis=0)) == pytest.approx(2.0)
    # What an app computes: a sum of 1.1 is not put right.
    assert age_error(f32([0.0, 1.0]), f32([0.0, 1.1]), UNDECLARED) == pytest.approx(0.1)


def test_age_error_ends():
    assert age_error(f32([0.5, 0.5]), f32([0.5, np.nan]), UNDECLARED) == CEILING_YEARS
    assert age_error(f32([30.0]), f32([1e9]), UNDECLARED) == CEILING_YEARS
    assert age_error(f32([0.5, 0.5]), f32([0.5, 0.5]), UNDECLARED) == 0.0


@pytest.mark.parametrize("logits", [f32([3.0, 4.0]), f32([-1.0, 2.0])])
def test_age_error_refuses_what_is_no_probability(logits):
    with pytest.raises(UsageError, match="expected probabilities"):
        age_error(logits, logits, UNDECLARED)


def test_which_outputs_hold_ages():
    assert why_no_age((1, 101), UNDECLARED) == ""
    assert why_no_age((), UNDECLARED) == ""
    assert "names 3 ages, but axis -1 has 2" in why_no_age((1, 2), OutputMeaning(ages=(1, 2, 3)))
    assert "no axis 4" in why_no_age((1, 2), OutputMeaning(axis=4))
    assert "no axis 0" in why_no_age((), OutputMeaning(axis=0))


# --- classes ------------------------------------------------------------------------------------------------------------


def test_top1_by_hand():
    a = f32([1, 2, 3])
    assert top1_agreement(a, f32([0, 0, 9]), UNDECLARED) == 1.0
    assert top1_agreement(a, f32([9, 0, 1]), UNDECLARED) == 0.0
    assert top1_agreement(f32([1, 1]), f32([1, 0]), UNDECLARED) == 1.0  # of equal ones the first
    rows = f32([[1, 0], [1, 0], [0, 1], [0, 1]])
    assert top1_agreement(rows, f32([[1, 0], [0, 1], [0, 1], [0, 1]]), UNDECLARED) == 0.75
    assert top1_agreement(rows.T, f32([[1, 0], [0, 1], [0, 1], [0, 1]]).T, OutputMeaning(axis=0)) == 0.75


def test_top1_ends():
    assert top1_agreement(f32([1, 2]), f32([1, np.nan]), UNDECLARED) == 0.0
    assert top1_agreement(f32().reshape(0, 3), f32().reshape(0, 3), UNDECLARED) == 1.0


@pytest.mark.parametrize(
    ("shape", "axis", "says"),
    [((1, 9), None, ""), ((9,), None, ""), ((1, 5, 9), None, ""), ((1, 9, 4, 4), 1, ""), ((1, None), None, ""),
     ((1, 9, 4, 4), None, "cannot be told"), ((1, 9, 1), None, "has 1 class"), ((1, 9), 2, "no axis 2"),
     ((), None, "one number")],
)  # fmt: skip
def test_which_outputs_hold_classes(shape, axis, says):
    found = why_no_classes(shape, OutputMeaning(axis=axis))
    assert (found == "") == (says == "")
    assert says in found


# --- masks --------------------------------------------------------------------------------------------------------------


def test_overlap_of_one_channel_by_hand():
    a, b = f32([[[0.9, 0.9, 0.1, 0.1]]]), f32([[[0.1, 0.9, 0.9, 0.1]]])  # 1 in both, 3 in either
    assert mask_overlap(a, b, UNDECLARED) == pytest.approx(1 / 3)
    assert mask_overlap(a - 0.5, b - 0.5, OutputMeaning(threshold=0.0)) == pytest.approx(1 / 3)
    assert mask_overlap(a[0, 0], b[0, 0], UNDECLARED) == pytest.approx(1 / 3)


def test_overlap_of_classes_is_the_mean_over_those_present():
    def masks(labels):  # (1, 4, 1, n)
        return np.eye(4, dtype=np.float32)[labels].T[None, :, None, :]

    # Class 0: 1 of 2; class 1: 1 of 3; class 2: 0 of 1 (in one of them alone); class 3 is in neither.
    a, b = masks([0, 0, 1, 1]), masks([0, 1, 1, 2])
    assert mask_overlap(a, b, UNDECLARED) == pytest.approx((1 / 2 + 1 / 3 + 0) / 3)
    last = np.moveaxis(a, 1, -1), np.moveaxis(b, 1, -1)
    assert mask_overlap(*last, OutputMeaning(axis=-1)) == pytest.approx((1 / 2 + 1 / 3 + 0) / 3)


def test_overlap_ends():
    empty, full = np.zeros((1, 1, 2, 2), np.float32), np.ones((1, 1, 2, 2), np.float32)
    assert mask_overlap(empty, empty, UNDECLARED) == 1.0
    assert mask_overlap(empty, full, UNDECLARED) == 0.0
    assert mask_overlap(full, full, UNDECLARED) == 1.0
    assert mask_overlap(full, full * np.nan, UNDECLARED) == 0.0
    assert mask_overlap(full[:0], full[:0], UNDECLARED) == 1.0


@pytest.mark.parametrize(
    ("shape", "axis", "says"),
    [((1, 21, 64, 64), None, ""), ((1, 1, 64, 64), None, ""), ((1, 64, 64), None, ""), ((64, 64), None, ""),
     ((1, 64, 64, 3), 3, ""),
     ((1, 64, 64, 3), None, "cannot be told"), ((1, 9), None, "one row"), ((9,), None, "1 axes"), ((1, 9), 5, "no axis 5"),
     ((1, 2, 3, 4, 5), None, "cannot be")],
)  # fmt: skip
def test_which_outputs_hold_masks(shape, axis, says):
    found = why_no_masks(shape, OutputMeaning(axis=axis))
    assert (found == "") == (says == "")
    assert says in found


# --- drop and noise -----------------------------------------------------------------------------------------------------


def test_a_drop_is_what_is_missing_to_full_agreement():
    drop = METRICS["drop"]
    rows, other = f32([[1, 0], [1, 0], [0, 1], [0, 1]]), f32([[1, 0], [0, 1], [0, 1], [0, 1]])
    assert drop.measure(rows, other, 1.0, OutputMeaning(metric="top1")) == 0.25
    assert drop.measure(rows, -rows, 1.0, OutputMeaning(metric="cosine")) == 1.0  # at most all
    assert drop.why_not((1, 9), OutputMeaning(metric="top1")) == ""
    assert "has 1 class" in drop.why_not((1, 1), OutputMeaning(metric="top1"))
    assert "no metric on the card" in drop.why_not((1, 9), UNDECLARED)
    assert 'the card\'s metric = "psnr"' in drop.why_not((1, 9), OutputMeaning(metric="psnr"))


def test_noise_by_hand():
    assert relative_noise(f32([3, 4]), f32([3, 5])) == pytest.approx(1 / 25)
    assert relative_noise(f32([0]), f32([0])) == 0.0
    assert (
        relative_noise(f32([0]), f32([1]))
        == relative_noise(f32([1]), f32([np.nan]))
        == relative_noise(f32([1]), f32([1, 2]))
        == 1e12
    )


@pytest.mark.parametrize("name", sorted(METRICS))
def test_each_metric_has_its_best_value_for_equal_outputs_and_its_worst_for_nan(name):
    kind = METRICS[name]
    meaning = OutputMeaning(metric="top1", axis=1 if name == "iou" else None)
    output = f32([0.1, 0.2, 0.3, 0.4])
    assert kind.measure(output, output, 1.0, meaning) == pytest.approx(kind.best)
    assert kind.measure(output, output * np.nan, 1.0, meaning) == kind.worst
