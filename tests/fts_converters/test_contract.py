from __future__ import annotations

import numpy as np
import pytest

from fts.errors import CardError, ShapeError
from fts.vocabulary.tensor_spec import TensorSpec
from fts_calibration.statistics.statistics import TensorRange
from fts_converters.card import Card, InputCard, OutputCard
from fts_converters.contract import decide_inputs, decide_outputs
from fts_converters.request import PreprocessingFlags
from fts_converters.warnings_log import WarningLog


def spec(*shape: int | str, name: str = "x", dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name=name, dtype=dtype, shape=shape)


def decide(*specs: TensorSpec, card: Card | None = None, forced=None, warnings=None, **flags):
    return decide_inputs(specs, card or Card(), PreprocessingFlags(**flags), forced or {}, warnings or WarningLog())


def one(*shape: int | str, dtype: str = "float32", image=None, **flags):
    card = Card(inputs={"x": InputCard(kind="image", image=image)}) if image is not None else None
    return decide(spec(*shape, dtype=dtype), card=card, **flags).live[0]


# --- inputs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "dtype", "kind"),
    [
        ((1, 3, 8, 8), "float32", "image"), ((1, 8, 8, 3), "uint8", "image"), ((1, 1, 8, 8), "float16", "image"),
        ((1, 4, 8, 8), "float32", "tensor"), ((1, 3, 8), "float32", "tensor"), ((1, 3, 8, 8), "int64", "tensor"),
        ((1, 3, 8, 8), "bool", "tensor"), ((1, 26), "float32", "tensor"),
    ],
)  # fmt: skip
def test_guesses_the_kind(shape, dtype, kind):
    assert one(*shape, dtype=dtype).kind == kind


def test_defaults_are_used_and_warned_of():
    warnings = WarningLog()
    (contract,) = decide(spec(1, 3, 8, 8), warnings=warnings).live
    pre = contract.preprocessing
    assert (pre.color, pre.layout, pre.fit, pre.pad_value) == ("rgb", "nchw", "letterbox", 114)
    assert pre.scale == 1 / 255
    assert (pre.mean, pre.std) == ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    ((warning_id, text),) = warnings.entries
    assert warning_id == "default-preprocessing"
    assert all(key in text for key in ("color", "scale", "mean", "std", "layout", "fit"))


def test_what_is_declared_is_not_warned_of():
    warnings = WarningLog()
    flags = {"color": "bgr", "scale": 1.0, "mean": (1.0,), "std": (2.0,), "layout": "nchw", "fit": "crop"}
    decide(spec(1, 3, 8, 8), warnings=warnings, **flags)
    assert warnings.entries == ()


def test_flags_win_over_the_card():
    pre = one(1, 3, 8, 8, image={"color": "bgr", "fit": "crop"}, color="rgb").preprocessing
    assert (pre.color, pre.fit) == ("rgb", "crop")


def test_layout_colour_and_scale_follow_shape_and_type():
    assert one(1, 8, 8, 3).preprocessing.layout == "nhwc"
    assert one(1, 1, 8, 8).preprocessing.color == "gray"
    assert one(1, 1, 8, 8).preprocessing.mean == (0.0,)
    assert one(1, 3, 8, 8, dtype="uint8").preprocessing.scale == 1.0
    assert one(1, 3, 8, 3).preprocessing.layout == "nchw"  # both fit: channels first
    assert one(1, 3, 8, 8, mean=(0.5,)).preprocessing.mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("shape", "image", "flags", "says"),
    [
        ((1, 3, 8), {}, {}, "expected 4 axes"),
        ((1, 4, 8, 8), {}, {"layout": "nchw"}, "4 channels by layout nchw"),
        ((1, 3, 8, 8), {"color": "gray"}, {}, "color 'gray', but the net takes 3"),
        ((1, 1, 8, 8), {"color": "rgb"}, {}, "color 'rgb', but the net takes 1"),
        ((1, 3, 8, 8), {"mean": [1, 2]}, {}, "mean has 2 values, expected 1 or 3"),
        ((1, 3, 8, 8), {"std": [1, 0, 1]}, {}, "holds 0"),
        ((1, 3, 8, 8), {"std": "big"}, {}, "std = 'big', expected a finite number"),
        ((1, 3, 8, 8), {"mean": [True, 1, 1]}, {}, "mean = True, expected a finite number"),
        ((1, 3, 8, 8), {"scale": float("nan")}, {}, "scale = nan, expected a finite number"),
        ((1, 3, 8, 8), {}, {"scale": 0.0}, "scale 0 makes all pictures the same"),
        ((1, 3, 8, 8), {"pad_value": 256}, {}, "pad_value = 256, expected a whole number from 0 to 255"),
        ((1, 3, 8, 8), {"pad_value": -1}, {}, "pad_value = -1"),
        ((1, 3, 8, 8), {"pad_value": 1.5}, {}, "pad_value = 1.5"),
        ((1, 3, 8, 8), {"pad_value": "black"}, {}, "pad_value = 'black'"),
        ((1, 3, 8, 8), {"pad_value": [1, 2, 3]}, {}, "pad_value = [1, 2, 3]"),
        ((1, 3, 8, 8), {"pad_value": True}, {}, "pad_value = True"),
    ],
)
def test_refuses_preprocessing_that_contradicts(shape, image, flags, says):
    with pytest.raises(CardError) as caught:
        one(*shape, image=image, **flags)
    assert says in str(caught.value)
    assert "'x'" in str(caught.value) or "inputs.x" in str(caught.value)


def test_unknown_batch_is_one_and_unknown_sizes_are_all_named():
    assert decide(spec("N", 3, 8, 8)).shapes == {"x": (1, 3, 8, 8)}
    with pytest.raises(ShapeError) as caught:
        decide(spec("N", 3, "H", "W"), spec(1, "?", name="z"))
    for part in ("input 'x': unknown H, W in Nx3xHxW", "--shape x=1x3x256x256", "input 'z': unknown ?"):
        assert part in str(caught.value)


def test_forced_shapes_override_declared_ones():
    assert decide(spec(1, 3, 8, 8), forced={"x": (1, 3, 16, 24)}).live[0].spec.shape == (1, 3, 16, 24)
    with pytest.raises(ShapeError, match="3 axes, but the net declares 4"):
        decide(spec(1, 3, 8, 8), forced={"x": (3, 8, 8)})


def test_a_declared_size_of_zero_and_a_batch_of_pictures_are_refused():
    with pytest.raises(ShapeError, match="size below 1; use --shape"):
        decide(spec(1, 3, 0, 8))
    with pytest.raises(ShapeError, match=r"batch 4 .*Use --shape x=1x3x8x8"):
        decide(spec(4, 3, 8, 8))


@pytest.mark.parametrize(
    ("where", "card", "forced"), [("card", {"imag": InputCard()}, {}), ("--shape", {}, {"imag": (1,)})]
)
def test_unknown_inputs_are_refused_with_the_nearest_name(where, card, forced):
    with pytest.raises(CardError, match=rf"{where}: the net has no input 'imag' \(did you mean 'image'\?\)"):
        decide(spec(1, 3, 8, 8, name="image"), card=Card(inputs=card), forced=forced)


def tensor(shape=(1, 4), dtype="float32", **entry):
    given = {k: np.asarray(v) if k in ("value", "values") else v for k, v in entry.items()}
    return decide(spec(*shape, dtype=dtype), card=Card(inputs={"x": InputCard(kind="tensor", **given)}))


def test_a_value_is_brought_to_the_full_shape():
    np.testing.assert_array_equal(tensor(value=2).live[0].default, np.full((1, 4), 2, np.float32))
    np.testing.assert_array_equal(tensor(value=[1, 2, 3, 4]).live[0].default, [[1, 2, 3, 4]])
    contract = tensor(value=1, values=[[1, 2, 3, 4], [5, 6, 7, 8]]).live[0]
    assert contract.values.shape == (2, 1, 4)
    assert contract.default.shape == (1, 4)
    np.testing.assert_array_equal(tensor(value=3).live[0].values, [[[3, 3, 3, 3]]])  # the default calibrates
    assert tensor().live[0].default is None


def test_freeze_takes_the_input_out():
    decisions = tensor(value=[1, 2, 3, 4], freeze=True)
    assert decisions.live == ()
    np.testing.assert_array_equal(decisions.frozen["x"], [[1, 2, 3, 4]])
    assert decisions.frozen["x"].dtype == np.float32


@pytest.mark.parametrize(
    ("dtype", "value", "says"),
    [
        ("float32", [1, 2, 3], "value has shape 3, expected 1x4"),
        ("int64", [0.5, 1, 1, 1], "holds fractions"),
        ("uint8", 300, "numbers that uint8 cannot hold"),
        ("uint8", -1, "numbers that uint8 cannot hold"),
        ("float16", 1e6, "numbers that float16 cannot hold"),
        ("float32", 1e300, "numbers that float32 cannot hold"),
    ],
)
def test_refuses_values_that_the_input_cannot_take(dtype, value, says):
    with pytest.raises(CardError) as caught:
        tensor(dtype=dtype, value=value)
    assert says in str(caught.value)


# --- outputs ------------------------------------------------------------------------------------------------------------


def outputs(*shape: int, seen=(0.0, 1.0), card=None, dtype="float32", inputs=None):
    warnings = WarningLog()
    inputs = decide(spec(1, 3, 8, 8)).live if inputs is None else inputs
    ranges = {} if seen is None else {"y": TensorRange(low=seen[0], high=seen[1])}
    (entry,) = decide_outputs(
        [spec(*shape, name="y", dtype=dtype)], Card(outputs={"y": card} if card else {}), inputs, ranges, warnings
    )
    return entry, warnings.entries


@pytest.mark.parametrize(
    ("seen", "bounds"),
    [
        ((0, 1), (0, 1)), ((-0.1, 1.1), (0, 1)), ((0.25, 0.75), (0, 1)), ((0.25, 0.74), None), ((-0.11, 1), (-1, 1)),
        ((-1.2, 1.2), (-1, 1)), ((-1.21, 1), None), ((0, 255), (0, 255)), ((-25, 280), (0, 255)), ((0, 127.6), (0, 255)),
        ((0, 100), None), ((0, 281), None), (None, None),
    ],
)  # fmt: skip
def test_an_output_is_a_picture_where_its_values_fill_a_pictures_interval(seen, bounds):
    entry, warnings = outputs(1, 3, 16, 16, seen=seen)
    assert entry.kind == ("image" if bounds else "tensor")
    assert entry.range == (None if bounds is None else tuple(map(float, bounds)))
    assert bool(warnings) == (bounds is None)


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ((1, 3, 12, 8), "not an integer multiple of input 'x'"), ((1, 5, 8, 8), "neither 1 nor 3 channels"),
        ((2, 3, 8, 8), "neither 1 nor 3 channels"), ((1, 10), "not a picture's"), ((1, 3, 4, 4), "not an integer multiple"),
    ],
)  # fmt: skip
def test_a_shape_that_is_no_pictures_is_a_tensor_and_the_warning_says_why(shape, why):
    entry, ((warning_id, text),) = outputs(*shape)
    assert entry.kind == "tensor"
    assert warning_id == "output-is-tensor"
    assert why in text


def test_uint8_is_a_picture_without_statistics():
    assert outputs(1, 3, 8, 8, seen=None, dtype="uint8")[0].range == (0.0, 255.0)


def test_the_card_decides_in_silence():
    assert outputs(1, 3, 8, 8, card=OutputCard(kind="tensor"))[0].kind == "tensor"
    entry, warnings = outputs(1, 3, 8, 8, seen=(3, 9), card=OutputCard(kind="image", range=(3.0, 9.0)))
    assert (entry.kind, entry.range, warnings) == ("image", (3.0, 9.0), ())


def test_a_declared_image_without_a_range_or_a_pictures_shape_is_refused():
    with pytest.raises(CardError, match=r"an image needs range = \[low, high\]; its values 3 to 9"):
        outputs(1, 3, 8, 8, seen=(3, 9), card=OutputCard(kind="image"))
    with pytest.raises(CardError, match="declared an image, but its shape 1x5x8x8"):
        outputs(1, 5, 8, 8, card=OutputCard(kind="image"))
    with pytest.raises(CardError, match="but the net has no image input"):
        outputs(1, 3, 8, 8, card=OutputCard(kind="image"), inputs=())


def test_an_unknown_output_is_refused_with_the_nearest_name():
    with pytest.raises(CardError, match=r"no output 'stylised' \(did you mean 'stylized'\?\)"):
        decide_outputs([spec(1, name="stylized")], Card(outputs={"stylised": OutputCard()}), (), {}, WarningLog())
