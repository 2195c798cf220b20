from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fts.errors import FrameError, ShapeError
from fts.imaging.preprocess import tensor_from_frame
from fts.vocabulary.preprocessing import Preprocessing
from fts.vocabulary.tensor_spec import TensorSpec


def spec_of(height: int, width: int, pre: Preprocessing, dtype: str = "float32") -> TensorSpec:
    channels = pre.channels
    shape = (1, channels, height, width) if pre.layout == "nchw" else (1, height, width, channels)
    return TensorSpec(name="x", dtype=dtype, shape=shape)


def frame_of(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("color", ["rgb", "bgr"])
def test_values_are_exactly_the_formula_in_float32(layout, color):
    frame = frame_of(9, 11)
    pre = Preprocessing(color=color, layout=layout, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), fit="exact")
    tensor, _ = tensor_from_frame(frame, spec_of(9, 11, pre), pre)
    pixels = frame[..., ::-1] if color == "rgb" else frame
    expected = (pixels.astype(np.float32) * np.float32(1 / 255) - np.float32(pre.mean)) / np.float32(pre.std)
    if layout == "nchw":
        expected = expected.transpose(2, 0, 1)
    assert tensor.dtype == np.float32
    assert np.array_equal(tensor, expected[None])


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_grey_is_the_luma_of_opencv_with_one_channel(layout):
    frame = frame_of(9, 11)
    pre = Preprocessing(color="gray", layout=layout, scale=1.0, mean=(1.0,), std=(2.0,), fit="exact")
    tensor, _ = tensor_from_frame(frame, spec_of(9, 11, pre), pre)
    expected = (cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY).astype(np.float32) - 1) / 2
    assert np.array_equal(tensor.reshape(9, 11), expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_float_types_are_rounded_from_the_float32_value(dtype):
    frame = frame_of(9, 11)
    pre = Preprocessing(fit="exact", layout="nhwc")
    tensor, _ = tensor_from_frame(frame, spec_of(9, 11, pre, dtype), pre)
    assert tensor.dtype == dtype
    assert np.array_equal(tensor[0], (frame[..., ::-1].astype(np.float32) * np.float32(1 / 255)).astype(dtype))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int32", "int64", "uint64"])
def test_integer_types_are_rounded_to_even_and_clipped_to_their_range(dtype):
    frame = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    pre = Preprocessing(scale=1.5, mean=(50.0,) * 3, fit="exact", layout="nhwc")
    tensor, _ = tensor_from_frame(frame, spec_of(16, 16, pre, dtype), pre)
    limits = np.iinfo(dtype)
    expected = np.clip(np.rint(np.arange(256) * 1.5 - 50), max(limits.min, -(2**40)), min(limits.max, 2**40))
    assert tensor.dtype == dtype
    assert np.array_equal(tensor[0, :, :, 0].ravel().astype(np.int64), expected.astype(np.int64))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("color", ["rgb", "bgr"])
def test_bytes_pass_unchanged_into_a_uint8_net(layout, color):
    frame = frame_of(24, 20)
    pre = Preprocessing(scale=1.0, layout=layout, color=color, fit="exact")
    tensor, _ = tensor_from_frame(frame, spec_of(24, 20, pre, "uint8"), pre)
    pixels = frame[..., ::-1] if color == "rgb" else frame
    assert np.array_equal(tensor[0], pixels.transpose(2, 0, 1) if layout == "nchw" else pixels)
    assert not np.shares_memory(tensor, frame)


def readonly(array: np.ndarray) -> np.ndarray:
    view = array[:]
    view.flags.writeable = False
    return view


VIEWS = {
    "crop": lambda a: a[:32, :32],
    "inner crop": lambda a: a[8:40, 16:48],
    "colours reversed": lambda a: a[:32, :32, ::-1],
    "upside down": lambda a: a[31::-1, :32],
    "mirrored": lambda a: a[:32, 31::-1],
    "Fortran": lambda a: np.asfortranarray(a[:32, :32]),
    "transposed": lambda a: a[:32, :32].transpose(1, 0, 2),
    "every second column": lambda a: a[:, ::2][:32, :32],
    "broadcast": lambda a: np.broadcast_to(a[:1, :32], (32, 32, 3)),
    "read-only": lambda a: readonly(a[:32, :32]),
    "planes": lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a[:32, :32], -1, 0)), 0, -1),
    "unaligned": lambda a: np.frombuffer(b"x" + a[:32, :32].tobytes(), np.uint8, offset=1).reshape(32, 32, 3),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("net", [(32, 32), (20, 28), (50, 41)])
@pytest.mark.parametrize("fit", ["exact", "stretch", "letterbox", "crop"])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_every_view_gives_the_bytes_of_its_contiguous_copy(view, net, fit, dtype):
    if fit == "exact":
        net = (32, 32)
    base = frame_of(48, 64, 1)
    before = base.copy()
    frame = VIEWS[view](base)
    pre = Preprocessing(fit=fit, scale=1.0 if dtype == "uint8" else 1 / 255)
    spec = spec_of(*net, pre, dtype)
    tensor, transform = tensor_from_frame(frame, spec, pre)
    expected, expected_transform = tensor_from_frame(np.ascontiguousarray(frame).copy(), spec, pre)
    assert tensor.tobytes() == expected.tobytes()
    output = frame_of(*net, 2)
    assert np.array_equal(transform.undo(output), expected_transform.undo(output))
    assert np.array_equal(base, before)
    assert not np.shares_memory(tensor, base)


@given(
    st.tuples(*[st.integers(1, 12)] * 2),
    st.tuples(*[st.sampled_from([-3, -2, -1, 1, 2, 3])] * 3),
    st.permutations([0, 1]),
)
@settings(max_examples=80, deadline=None)
def test_any_strides_give_the_bytes_of_the_contiguous_copy(size, steps, order):
    base = np.random.default_rng(0).integers(0, 256, (40, 40, 9), dtype=np.uint8)
    view = base[:: steps[0], :: steps[1], :: steps[2]][: size[0], : size[1], :3].transpose(*order, 2)
    pre = Preprocessing(fit="letterbox")
    spec = spec_of(8, 6, pre)
    tensor, _ = tensor_from_frame(view, spec, pre)
    assert np.array_equal(tensor, tensor_from_frame(view.copy(order="C"), spec, pre)[0])


def test_the_pad_is_a_pixel_that_is_normalised_like_the_others():
    pre = Preprocessing(pad_value=255, mean=(0.5,) * 3, std=(0.5,) * 3)
    tensor, _ = tensor_from_frame(np.zeros((10, 20, 3), np.uint8), spec_of(20, 20, pre), pre)
    assert (tensor[0, :, :5] == 1).all()
    assert (tensor[0, :, 5:15] == -1).all()


@pytest.mark.parametrize(
    ("frame", "found", "fix"),
    [
        (np.zeros((4, 4, 3), np.float32), "float32", "model.infer"),
        (np.zeros((4, 4), np.uint8), "(4, 4)", "COLOR_GRAY2BGR"),
        (np.zeros((4, 4, 1), np.uint8), "(4, 4, 1)", "frame[..., :3]"),
        (np.zeros((4, 4, 4), np.uint8), "(4, 4, 4)", "frame[..., :3]"),
        (np.zeros((1, 4, 4, 3), np.uint8), "(1, 4, 4, 3)", "frame[0]"),
        (np.zeros((0, 4, 3), np.uint8), "(0, 4, 3)", "at least 1 pixel"),
        ([[1, 2, 3]], "list", "np.asarray"),
        (None, "NoneType", "np.asarray"),
    ],
    ids=["float", "grey", "one-channel", "alpha", "batch", "empty", "list", "none"],
)
def test_a_wrong_frame_says_what_was_found_expected_and_how_to_fix_it(frame, found, fix):
    pre = Preprocessing()
    with pytest.raises(FrameError) as caught:
        tensor_from_frame(frame, spec_of(4, 4, pre), pre)
    message = str(caught.value)
    assert message.startswith("frame: ")
    assert "expected" in message
    assert found in message
    assert fix in message
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("shape", [(1, 4, 8, 8), (2, 3, 8, 8), (3, 8, 8), (1, 8, 8, 3), (1, 1, 8, 8)])
def test_an_input_that_pictures_cannot_feed_is_named_with_its_shape(shape):
    spec = TensorSpec(name="latent", dtype="float32", shape=shape)
    with pytest.raises(ShapeError) as caught:
        tensor_from_frame(frame_of(8, 8), spec, Preprocessing())
    message = str(caught.value)
    assert "'latent'" in message
    assert str(shape) in message
    assert "(1, C, H, W) with C = 3" in message
    assert "--color or --layout" in message


@pytest.mark.parametrize("dtype", ["bool", "complex64"])
def test_an_input_type_that_is_no_number_scale_is_refused(dtype):
    pre = Preprocessing()
    with pytest.raises(ShapeError, match=dtype):
        tensor_from_frame(frame_of(8, 8), spec_of(8, 8, pre, dtype), pre)
