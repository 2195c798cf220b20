from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fts.errors import FrameError
from fts.imaging.fit import fit_frame

# An affine map in float64 and its inverse, on coordinates up to 1e5: a few ulp of 1e5.
BOX_ERROR_PX = 1e-6

sides = st.integers(1, 70)
fits = st.sampled_from(["stretch", "letterbox", "crop"])


def frame_of(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@given(sides, sides, sides, sides, fits, st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_fit_has_the_nets_size_and_undo_the_frames_size_times_the_scale(h, w, net_h, net_w, fit, scale_y, scale_x):
    fitted, transform = fit_frame(frame_of(h, w), net_h, net_w, fit, 114)
    assert fitted.shape == (net_h, net_w, 3)
    output = np.zeros((net_h * scale_y, net_w * scale_x, 3), np.uint8)
    undone = transform.undo(output)
    assert undone.shape == (h * scale_y, w * scale_x, 3)
    assert not np.shares_memory(undone, output)


@given(sides, sides, sides, sides, fits, st.lists(st.tuples(*[st.floats(-1e5, 1e5)] * 4), max_size=5))
@settings(max_examples=150, deadline=None)
def test_boxes_survive_the_round_trip(h, w, net_h, net_w, fit, boxes):
    _, transform = fit_frame(frame_of(h, w), net_h, net_w, fit, 0)
    there = transform.boxes_to_net(boxes)
    assert there.shape == (len(boxes), 4)
    back = transform.boxes_to_frame(there)
    assert np.allclose(back, np.reshape(boxes, (-1, 4)), rtol=0, atol=BOX_ERROR_PX * max(net_h, net_w, h, w))


@given(sides, sides, sides, sides)
@settings(max_examples=100, deadline=None)
def test_a_letterbox_fills_one_axis_centres_the_other_and_pads_the_rest(h, w, net_h, net_w):
    fitted, transform = fit_frame(np.full((h, w, 3), 200, np.uint8), net_h, net_w, "letterbox", 7)
    x0, y0, x1, y1 = transform.net_box
    assert x1 - x0 == net_w or y1 - y0 == net_h
    assert abs(x0 - (net_w - x1)) <= 1
    assert abs(y0 - (net_h - y1)) <= 1
    expected = np.full((net_h, net_w, 3), 7, np.uint8)
    expected[y0:y1, x0:x1] = 200
    assert np.array_equal(fitted, expected)


@given(sides, sides, sides, sides)
@settings(max_examples=100, deadline=None)
def test_a_whole_frame_maps_onto_the_picture_inside_the_letterbox(h, w, net_h, net_w):
    _, transform = fit_frame(frame_of(h, w), net_h, net_w, "letterbox", 0)
    assert np.allclose(transform.boxes_to_net([(0, 0, w, h)])[0], transform.net_box)


def test_a_letterbox_keeps_the_aspect():
    _, transform = fit_frame(frame_of(1080, 1920), 512, 512, "letterbox", 0)
    assert transform.net_box == (0, 112, 512, 400)


def test_undoing_a_letterbox_gives_the_frame_back_when_the_scale_is_whole():
    frame = frame_of(20, 40)
    fitted, transform = fit_frame(frame, 64, 40, "letterbox", 0)
    assert np.array_equal(transform.undo(fitted), frame)


def test_exact_hands_the_pixels_through_and_undo_gives_a_copy():
    frame = frame_of(13, 17)
    fitted, transform = fit_frame(frame, 13, 17, "exact", 0)
    assert np.array_equal(fitted, frame)
    undone = transform.undo(fitted)
    assert np.array_equal(undone, frame)
    assert not np.shares_memory(undone, fitted)


def test_exact_with_another_size_names_both_sizes_and_letterbox():
    with pytest.raises(FrameError) as caught:
        fit_frame(frame_of(480, 640), 256, 128, "exact", 0)
    assert "640x480" in str(caught.value)
    assert "128x256" in str(caught.value)
    assert "--fit letterbox" in str(caught.value)


def test_a_crop_keeps_the_centre_and_undo_pastes_into_the_frame():
    frame = frame_of(30, 50)
    fitted, transform = fit_frame(frame, 30, 30, "crop", 0)
    assert np.array_equal(fitted, frame[:, 10:40])
    changed = transform.undo(255 - fitted)
    expected = frame.copy()
    expected[:, 10:40] = 255 - frame[:, 10:40]
    assert np.array_equal(changed, expected)


def test_a_crop_remembers_the_frame_although_its_memory_is_used_again():
    frame = frame_of(30, 50)
    before = frame.copy()
    fitted, transform = fit_frame(frame, 30, 30, "crop", 0)
    frame[:] = 0
    first, second = transform.undo(fitted), transform.undo(fitted)
    assert np.array_equal(first, before)
    assert not np.shares_memory(first, second)


def test_undoing_a_crop_at_twice_the_size_enlarges_what_was_left_out():
    frame = frame_of(30, 50)
    _, transform = fit_frame(frame, 30, 30, "crop", 0)
    undone = transform.undo(np.zeros((60, 60, 3), np.uint8))
    assert undone.shape == (60, 100, 3)
    assert not undone[:, 20:80].any()
    assert np.array_equal(undone[:, :20], cv2.resize(frame, (100, 60), interpolation=cv2.INTER_CUBIC)[:, :20])


@pytest.mark.parametrize(("height", "width"), [(1, 4000), (4000, 1), (1, 1), (2160, 3840), (3, 2001)])
@pytest.mark.parametrize("fit", ["stretch", "letterbox", "crop"])
def test_extreme_sizes_have_no_empty_side(height, width, fit):
    fitted, transform = fit_frame(frame_of(height, width), 33, 65, fit, 114)
    assert fitted.shape == (33, 65, 3)
    assert transform.undo(fitted).shape == (height, width, 3)


def test_shrinking_averages_areas():
    checkers = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)
    fitted, _ = fit_frame(np.dstack([checkers] * 3), 16, 16, "stretch", 0)
    assert set(np.unique(fitted)) <= {127, 128}


def test_one_axis_may_shrink_while_the_other_grows():
    rows = np.repeat(np.array([0, 255], np.uint8), 32)[:, None, None]
    fitted, _ = fit_frame(np.broadcast_to(rows, (64, 4, 3)), 2, 40, "stretch", 0)
    assert np.array_equal(fitted[:, :, 0], np.repeat([[0], [255]], 40, axis=1))


@pytest.mark.parametrize("shape", [(10, 31, 3), (31, 10, 3), (5, 5, 3)])
def test_an_output_that_is_no_multiple_of_the_net_is_named_with_both_sizes(shape):
    _, transform = fit_frame(frame_of(40, 40), 10, 10, "stretch", 0)
    with pytest.raises(FrameError) as caught:
        transform.undo(np.zeros(shape, np.uint8))
    assert f"{shape[1]}x{shape[0]}" in str(caught.value)
    assert "10x10" in str(caught.value)
    assert 'kind = "tensor"' in str(caught.value)


def test_an_empty_frame_is_an_error():
    with pytest.raises(FrameError, match=r"shape \(0, 5, 3\), expected at least 1 pixel"):
        fit_frame(np.zeros((0, 5, 3), np.uint8), 4, 4, "letterbox", 0)
