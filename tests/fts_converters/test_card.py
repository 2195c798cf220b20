from __future__ import annotations

import numpy as np
import pytest

from fts.errors import CardError
from fts_calibration.metrics.output_meaning import OutputMeaning
from fts_converters.card import Card, read_card


@pytest.fixture
def card(tmp_path):
    def read(text: str) -> Card:
        path = tmp_path / "model.toml"
        path.write_text(text, encoding="utf-8")
        return read_card(path)

    return read


def test_reads_every_key(card, tmp_path):
    np.save(tmp_path / "ages.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    found = card("""
        [inputs.image]
        kind = "image"
        color = "bgr"
        scale = 1.0
        mean = [1, 2, 3]
        std = 2
        layout = "nhwc"
        fit = "crop"
        pad_value = 0
        [inputs.age]
        value = [1.0, 0.5]
        values = "ages.npy"
        [inputs.mode]
        kind = "tensor"
        value = 3
        freeze = true
        [outputs.y]
        kind = "image"
        range = [-1, 1]
        [outputs.z]
        kind = "tensor"
        metric = "top1"
        budget = "drop<=0.5%"
        axis = 1
        [outputs.points]
        budget = "nme<=0.02"
        landmarks = "planar"
        eyes = [0, [1, 2]]
        [outputs.age]
        metric = "age"
        ages = [18, 19.5]
        threshold = 0
        [outputs.aux]
        budget = "none"
    """)
    assert dict(found.inputs["image"].image) == {
        "color": "bgr", "scale": 1.0, "mean": [1, 2, 3], "std": 2, "layout": "nhwc", "fit": "crop", "pad_value": 0,
    }  # fmt: skip
    assert found.inputs["age"].kind == "tensor"
    assert found.inputs["age"].values.shape == (3, 2)
    assert found.inputs["mode"].freeze is True
    assert found.inputs["mode"].value == 3
    assert found.outputs["y"].range == (-1.0, 1.0)
    z = found.outputs["z"]
    assert (z.kind, z.budget_text, str(z.budget)) == ("tensor", "drop<=0.5%", "drop<=0.5%")
    assert z.meaning == OutputMeaning(metric="top1", axis=1)
    assert found.outputs["points"].meaning == OutputMeaning(landmarks="planar", eyes=((0,), (1, 2)))
    assert found.outputs["age"].meaning == OutputMeaning(metric="age", ages=(18.0, 19.5), threshold=0.0)
    assert (found.outputs["aux"].budget_text, found.outputs["aux"].budget) == ("none", None)


def test_an_empty_card_says_nothing(card):
    assert card("") == Card()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[inputs", "not valid TOML"),
        ("[input.x]", "unknown key 'input'; did you mean 'inputs'? Known keys: inputs, outputs"),
        ("[inputs.x]\ncolour = 'rgb'", "[inputs.x]: unknown key 'colour'; did you mean 'color'?"),
        ("[inputs.x]\nqqq = 1", "unknown key 'qqq'. Known keys: kind, value"),
        ("[outputs.y]\nlow = 1", "[outputs.y]: unknown key 'low'"),
        ("inputs = 3", "'inputs' must hold one table a tensor"),
        ("[inputs]\nx = 3", "'inputs' must hold one table a tensor"),
        ("[inputs.x]\nkind = 'picture'", "kind = 'picture', expected one of image, tensor"),
        ("[inputs.x]\ncolor = 'yuv'", "color = 'yuv', expected one of rgb, bgr, gray"),
        ("[inputs.x]\nlayout = 'chw'", "layout = 'chw', expected one of nchw, nhwc"),
        ("[inputs.x]\nfit = 1", "fit = 1, expected one of exact, stretch, letterbox, crop"),
        ("[inputs.x]\nkind = 'image'\nvalue = 1", 'value belongs to kind = "tensor"'),
        ("[inputs.x]\nkind = 'image'\nfreeze = true", 'freeze belongs to kind = "tensor"'),
        ("[inputs.x]\nkind = 'tensor'\nscale = 1", 'scale belongs to kind = "image"'),
        ("[inputs.x]\nfreeze = true", "freeze = true needs value"),
        ("[inputs.x]\nfreeze = 1", "freeze = 1, expected true or false"),
        ("[inputs.x]\nvalue = 'a'", "expected a finite number"),
        ("[inputs.x]\nvalue = [[1], [1, 2]]", "ragged"),
        ("[inputs.x]\nvalue = nan", "expected a finite number"),
        ("[inputs.x]\nvalue = [1.0, inf]", "expected a finite number"),
        ("[inputs.x]\nvalues = 3", "expected the name of an .npy file"),
        ("[inputs.x]\nvalues = 'absent.npy'", "cannot be read as .npy"),
        ("[inputs.x]\nvalues = 'model.toml'", "cannot be read as .npy"),
        ("[outputs.y]\nrange = [1]", "expected [low, high], two finite numbers with low < high"),
        ("[outputs.y]\nrange = [1, 1]", "expected [low, high], two finite numbers with low < high"),
        ("[outputs.y]\nrange = [0, inf]", "expected [low, high], two finite numbers with low < high"),
        ("[outputs.y]\nrange = [nan, 1]", "expected [low, high], two finite numbers with low < high"),
        ("[outputs.y]\nrange = [false, true]", "expected [low, high], two finite numbers with low < high"),
        ("[outputs.y]\nrange = 'auto'", "expected [low, high], two finite numbers with low < high"),
        ("[outputs.y]\nkind = 'tensor'\nrange = [0, 1]", 'range belongs to kind = "image"'),
        ("[outputs.y]\nbudget = 3", "budget = 3, expected a text such as"),
        ("[outputs.y]\nbudget = ''", "budget = '', expected a text such as"),
        ("[outputs.y]\nbudget = 'lpips>=3'", "[outputs.y]: budget 'lpips>=3': unknown metric 'lpips'"),
        ("[outputs.y]\nbudget = 'z:psnr>=3'", "names output 'z'"),
        ("[outputs.y]\nmetric = 'drop'", "metric = 'drop', expected one of psnr"),
        ("[outputs.y]\naxis = true", "axis = True, expected a whole number"),
        ("[outputs.y]\naxis = 1.5", "axis = 1.5, expected a whole number"),
        ("[outputs.y]\nthreshold = 'high'", "threshold = 'high', expected a finite number"),
        ("[outputs.y]\nages = 5", "ages = 5, expected a list of years"),
        ("[outputs.y]\nages = [1, nan]", "expected a list of years"),
        ("[outputs.y]\nlandmarks = 'yx'", "landmarks = 'yx', expected one of xy, xyz, planar"),
        ("[outputs.y]\neyes = [0]", "eyes = [0], expected the points of the left and of the right eye"),
        ("[outputs.y]\neyes = [0, -1]", "expected the points of the left"),
        ("[outputs.y]\neyes = [0, []]", "expected the points of the left"),
    ],
)
def test_refuses(card, text, says):
    with pytest.raises(CardError) as caught:
        card(text)
    assert says in str(caught.value)
    assert "model.toml" in str(caught.value)


@pytest.mark.parametrize("rows", [np.zeros((0, 2)), np.float32(3), np.array(["a"]), np.array([[np.nan]])])
def test_refuses_values_that_are_no_rows_of_numbers(card, tmp_path, rows):
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(CardError, match=r"rows\.npy"):
        card("[inputs.x]\nvalues = 'rows.npy'")


def test_never_unpickles(card, tmp_path):
    np.save(tmp_path / "rows.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(CardError, match=r"cannot be read as \.npy"):
        card("[inputs.x]\nvalues = 'rows.npy'")


def test_a_missing_or_unreadable_card_is_named(tmp_path):
    with pytest.raises(CardError, match=r"absent\.toml'?: there is no such file"):
        read_card(tmp_path / "absent.toml")
    with pytest.raises(CardError, match="cannot be read"):
        read_card(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(CardError, match="cannot be read"):
        read_card(tmp_path / "latin.toml")
