from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fts.errors import FrameError
from fts.imaging.fit import fit_frame
from fts.imaging.postprocess import frame_from_tensor
from fts.imaging.preprocess import tensor_from_frame
from fts.vocabulary.preprocessing import Preprocessing
from fts.vocabulary.tensor_spec import TensorSpec


def frame_of(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def exact(height: int, width: int):
    return fit_frame(frame_of(height, width), height, width, "exact", 0)[1]


@given(
    layout=st.sampled_from(["nchw", "nhwc"]),
    color=st.sampled_from(["rgb", "bgr"]),
    low=st.sampled_from([0.0, -1.0]),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
)
@settings(max_examples=24, deadline=None)
def test_a_net_that_returns_its_input_returns_the_frame(layout, color, low, dtype):
    frame = frame_of(8, 10)
    offset = (0.0,) * 3 if low == 0 else (0.5,) * 3
    spread = (1.0,) * 3 if low == 0 else (0.5,) * 3
    pre = Preprocessing(color=color, layout=layout, mean=offset, std=spread, fit="exact")
    shape = (1, 3, 8, 10) if layout == "nchw" else (1, 8, 10, 3)
    tensor, transform = tensor_from_frame(frame, TensorSpec(name="x", dtype=dtype, shape=shape), pre)
    before = tensor.copy()
    assert np.array_equal(frame_from_tensor(tensor, layout, color, (low, 1.0), transform), frame)
    assert np.array_equal(tensor, before)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_uint8_passes_through_without_sharing_memory(layout):
    frame = frame_of(8, 10)
    tensor = frame[..., ::-1][None]
    if layout == "nchw":
        tensor = tensor.transpose(0, 3, 1, 2)
    tensor = np.ascontiguousarray(tensor)
    image = frame_from_tensor(tensor, layout, "rgb", (0, 255), exact(8, 10))
    assert np.array_equal(image, frame)
    assert not np.shares_memory(image, tensor)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("color", ["rgb", "bgr", "gray"])
def test_one_channel_becomes_three_equal_ones(layout, color):
    grey = frame_of(8, 10)[..., 0]
    tensor = grey[None, None] if layout == "nchw" else grey[None, ..., None]
    image = frame_from_tensor(tensor, layout, color, (0, 255), exact(8, 10))
    assert np.array_equal(image, np.dstack([grey] * 3))


def test_values_outside_the_range_are_clipped_and_nan_is_black():
    values = [np.nan, -np.inf, -3.0, 0.0, 0.5, 1.0, 9.0, np.inf, 3e38]
    tensor = np.array(values, np.float32).reshape(1, 1, 1, 9)
    image = frame_from_tensor(tensor, "nchw", "rgb", (0.0, 1.0), exact(1, 9))
    assert image[0, :, 0].tolist() == [0, 0, 0, 0, 128, 255, 255, 255, 255]


def test_integer_tensors_have_a_range_too():
    tensor = np.array([-128, 0, 127], np.int8).reshape(1, 1, 1, 3)
    image = frame_from_tensor(tensor, "nchw", "rgb", (-128, 127), exact(1, 3))
    assert image[0, :, 0].tolist() == [0, 128, 255]


def test_the_fit_is_undone_at_the_nets_scale():
    _, transform = fit_frame(frame_of(30, 60), 32, 32, "letterbox", 0)
    tensor = np.zeros((1, 3, 128, 128), np.float32)
    tensor[:, 0, 32:96] = 1.0  # red inside the picture, black in the padding
    image = frame_from_tensor(tensor, "nchw", "rgb", (0.0, 1.0), transform)
    assert image.shape == (120, 240, 3)
    assert (image == (0, 0, 255)).all()


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 3, 8, 8), (1, 2, 8, 8), (1, 8, 8, 3), (1, 10)])
def test_a_tensor_that_is_no_picture_is_named_with_its_shape(shape):
    with pytest.raises(FrameError) as caught:
        frame_from_tensor(np.zeros(shape, np.float32), "nchw", "rgb", (0.0, 1.0), exact(8, 8))
    assert str(shape) in str(caught.value)
    assert "(1, C, H, W) with C = 1 or 3" in str(caught.value)
    assert 'kind = "tensor"' in str(caught.value)


def test_a_range_that_does_not_rise_is_a_wrong_call():
    with pytest.raises(ValueError, match="must rise"):
        frame_from_tensor(np.zeros((1, 1, 2, 2), np.float32), "nchw", "rgb", (1.0, 1.0), exact(2, 2))
