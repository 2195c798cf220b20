from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import fts
from fts.errors import EngineError, FrameError, NoImageError, StreamError


@pytest.fixture
def model(bundle):
    with fts.load(bundle) as loaded:
        yield loaded


@pytest.fixture
def aged(kit, tmp_path):
    with fts.load(kit.aged().write(tmp_path / "aged.fts")) as loaded:
        yield loaded


@pytest.fixture
def aged_by_default(kit, tmp_path):
    with fts.load(kit.aged(default=[[0.5]]).write(tmp_path / "aged.fts")) as loaded:
        yield loaded


def picture(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((1, 3, 32, 32), dtype=np.float32)


# --- frames -----------------------------------------------------------------------------------------------------------


def test_a_frame_of_the_net_s_size_comes_back_as_its_exact_negative(model, frame):
    out = model(frame[:32, :32])
    np.testing.assert_array_equal(out.image, 255 - frame[:32, :32])
    assert out.image.dtype == np.uint8


def test_a_frame_of_another_size_comes_back_in_its_own_size(model, frame):
    assert model(frame).image.shape == frame.shape


def test_a_result_tells_the_rung_its_age_and_all_tensors(model, frame):
    out = model(frame)
    assert (out.rung, out.degraded) == ("32x32", False)
    assert 0 < out.age_ms < 60_000
    assert out.tensors["y"].shape == (1, 3, 32, 32)
    assert out.image is out.images["y"]


VIEWS = {
    "corner": lambda a: a[:32, :32],
    "inner": lambda a: a[8:40, 16:48],
    "channels flipped": lambda a: a[:32, :32, ::-1],
    "rows flipped": lambda a: a[31::-1, :32],
    "columns flipped": lambda a: a[:32, 31::-1],
    "fortran": lambda a: np.asfortranarray(a[:32, :32]),
    "transposed": lambda a: a[:32, :32].transpose(1, 0, 2),
    "strided": lambda a: a[::1, ::2][:32, :32],
    "broadcast": lambda a: np.broadcast_to(a[:1, :32], (32, 32, 3)),
    "channel planes": lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a[:32, :32], -1, 0)), 0, -1),
    "other size": lambda a: a[40:3:-1, 2:60:3],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("readonly", [False, True])
def test_a_view_gives_what_its_contiguous_copy_gives_and_stays_as_it_was(model, frame, view, readonly):
    seen = view(frame)
    if readonly:
        seen.flags.writeable = False
    before = np.ascontiguousarray(seen).copy()
    expected = model(before.copy())
    out = model(seen)
    np.testing.assert_array_equal(out.image, expected.image)
    np.testing.assert_array_equal(out.tensors["y"], expected.tensors["y"])
    np.testing.assert_array_equal(seen, before)


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (np.zeros((32, 32, 3), np.float32), "float32"),
        (np.zeros((32, 32), np.uint8), r"\(32, 32\)"),
        (np.zeros((32, 32, 4), np.uint8), r"\(32, 32, 4\)"),
        (np.zeros((1, 32, 32, 3), np.uint8), r"\(1, 32, 32, 3\)"),
        (np.zeros((0, 32, 3), np.uint8), r"\(0, 32, 3\)"),
        (None, "NoneType"),
        ([[[1, 2, 3]]], "list"),
    ],
    ids=["float", "grey", "alpha", "batch", "empty", "none", "list"],
)
def test_what_is_no_frame_is_a_frame_error_and_a_value_error(model, bad, found):
    with pytest.raises(FrameError, match=f"frame: .*{found}.*expected") as caught:
        model(bad)
    assert isinstance(caught.value, StreamError)
    assert isinstance(caught.value, ValueError)


def test_a_net_without_a_picture_says_which_tensors_it_has(kit, tmp_path, frame):
    recipe = kit.Recipe(outputs=(kit.tensor_output("y", (1, 3, 32, 32)),))
    out = fts.load(recipe.write(tmp_path / "net.fts"))(frame)
    assert out.images == {}
    with pytest.raises(NoImageError, match=r"no image output, only the tensors y: read out\.tensors"):
        _ = out.image


def test_a_net_without_an_image_input_points_to_infer(kit, tmp_path, frame):
    recipe = kit.Recipe(inputs=(kit.tensor_input("x", (1, 3, 32, 32)),))
    with pytest.raises(FrameError, match=r"takes no frame.*model\.infer"):
        fts.load(recipe.write(tmp_path / "net.fts"))(frame)


def test_a_second_image_input_is_given_as_a_frame(kit, tmp_path, frame):
    text = """<ir_version: 8, opset_import: ["" : 13]>
    mix (float[1,3,32,32] x, float[1,3,32,32] style) => (float[1,3,32,32] y) { y = Sub (x, style) }"""
    net = kit.onnx_bytes(text)
    recipe = kit.Recipe(portable=net, encoded=net, inputs=(kit.image_input(), kit.image_input("style")))
    model = fts.load(recipe.write(tmp_path / "net.fts"))
    white = np.full((32, 32, 3), 255, np.uint8)
    np.testing.assert_array_equal(model(white, {"style": frame[:32, :32]}).image, 255 - frame[:32, :32])
    with pytest.raises(FrameError, match="input 'style' is missing"):
        model(white)


# --- other inputs of a frame's call -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [2, 2.0, [2], [[2.0]], np.float32([[2]]), True + 1], ids=repr)
def test_a_number_a_list_or_an_array_feeds_a_tensor_input(aged, frame, value):
    assert aged(frame, {"age": value}).tensors["twice"].item() == 4


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, 2], r"input 'age': found 1 axes \(2,\), expected 2: \(1, 1\)"),
        ("old", "input 'age': found 'old', expected float32"),
        ([[1], [2, 3]], "input 'age': found a list of uneven rows"),
        (np.float64([[1]]), r"input 'age': found dtype float64, expected float32.*astype\(float32\)"),
        (None, "input 'age': found None"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(aged, frame, value, text):
    with pytest.raises(FrameError, match=text):
        aged(frame, {"age": value})


@pytest.mark.parametrize(
    ("value", "dtype", "fits"), [(200, "uint8", True), (256, "uint8", False), (1.5, "int64", False)]
)
def test_numbers_become_integers_only_without_loss(kit, value, dtype, fits):
    from fts.model import tensor_from_value

    entry = kit.tensor_input("n", (1,), dtype=dtype)
    if fits:
        assert tensor_from_value(value, entry).tolist() == [value]
    else:
        with pytest.raises(FrameError, match=f"input 'n': found {value}, expected {dtype}"):
            tensor_from_value(value, entry)


def test_an_unknown_input_is_named_with_those_there_are(aged, frame):
    with pytest.raises(FrameError, match="unknown input 'agee', expected age, x"):
        aged(frame, {"age": 1, "agee": 2})


def test_a_default_may_be_left_out_or_replaced(aged_by_default, frame):
    assert aged_by_default(frame).tensors["twice"].item() == 1
    assert aged_by_default(frame, {"age": 3}).tensors["twice"].item() == 6
    assert aged_by_default(frame).tensors["twice"].item() == 1


# --- raw tensors ------------------------------------------------------------------------------------------------------


def test_infer_runs_raw_tensors(aged):
    x = picture()
    out = aged.infer({"x": x, "age": np.float32([[2]])})
    np.testing.assert_array_equal(out["y"], x * 2)
    assert list(out) == ["y", "twice"]


def test_infer_fills_in_defaults(aged_by_default):
    assert aged_by_default.infer({"x": picture()})["twice"].item() == 1


@pytest.mark.parametrize(
    "view",
    [
        lambda x: np.asfortranarray(x),
        lambda x: x[..., ::-1],
        lambda x: x.transpose(0, 1, 3, 2),
        lambda x: np.repeat(x, 2, axis=3)[..., ::2],
        lambda x: np.broadcast_to(x[:, :1], x.shape),
    ],
    ids=["fortran", "negative stride", "transposed", "strided", "broadcast"],
)
def test_infer_takes_any_memory_layout(model, view):
    seen = view(picture())
    np.testing.assert_array_equal(model.infer({"x": seen})["y"], 1 - np.ascontiguousarray(seen))


@pytest.mark.parametrize(
    ("feeds", "text"),
    [
        ({}, r"aged\.fts: input 'x' is missing; expected a numpy array of float32 \(1, 3, 32, 32\)"),
        ({"x": picture()}, "input 'age' is missing.*no default"),
        ({"x": picture(), "age": np.float32([[1]]), "z": picture()}, "unknown input 'z', expected age, x"),
        (
            {"x": picture().astype(np.float64), "age": np.float32([[1]])},
            "input 'x': found dtype float64, expected float32",
        ),
        ({"x": picture().astype(">f4"), "age": np.float32([[1]])}, "input 'x': found dtype >f4, expected float32"),
        (
            {"x": picture()[0], "age": np.float32([[1]])},
            r"input 'x': found 3 axes \(3, 32, 32\), expected 4: \(1, 3, 32, 32\)",
        ),
        (
            {"x": picture()[:, :, 1:], "age": np.float32([[1]])},
            r"found shape \(1, 3, 31, 32\), expected \(1, 3, 32, 32\)",
        ),
        (
            {"x": picture().tolist(), "age": np.float32([[1]])},
            "input 'x': found list, expected a numpy array of float32",
        ),
        ({"x": None, "age": np.float32([[1]])}, "input 'x' is missing"),
    ],
)
def test_infer_says_what_is_wrong_with_a_feed(aged, feeds, text):
    with pytest.raises(FrameError, match=text):
        aged.infer(feeds)


def test_dimensions_without_a_number_are_free(kit, tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[N,3] x) => (float[N,3] y) { y = Neg (x) }"""
    net = kit.onnx_bytes(text)
    recipe = kit.Recipe(
        portable=net,
        encoded=net,
        inputs=(kit.tensor_input("x", ("N", 3)),),
        outputs=(kit.tensor_output("y", ("N", 3)),),
    )
    model = fts.load(recipe.write(tmp_path / "net.fts"))
    assert model.infer({"x": np.ones((5, 3), np.float32)})["y"].shape == (5, 3)
    with pytest.raises(FrameError, match=r"found shape \(5, 4\), expected \('N', 3\)"):
        model.infer({"x": np.ones((5, 4), np.float32)})


# --- results are the caller's -----------------------------------------------------------------------------------------


PASSES_THROUGH = """<ir_version: 8, opset_import: ["" : 13]>
g (float[1,3,32,32] x, float[1,1] age) => (float[1,3,32,32] x, float[1,1] same, float[1,3072] flat, float[2] c)
  <float[2] k = {1.0, 2.0}> { same = Identity (age)  flat = Flatten (x)  c = Identity (k) }"""


def test_results_share_no_memory_with_inputs_each_other_or_later_results(kit, tmp_path):
    net = kit.onnx_bytes(PASSES_THROUGH)
    recipe = kit.Recipe(
        portable=net,
        encoded=net,
        inputs=(kit.image_input(), kit.tensor_input("age", (1, 1), [[0.5]])),
        outputs=(
            kit.tensor_output("x", (1, 3, 32, 32)),
            kit.tensor_output("same", (1, 1)),
            kit.tensor_output("flat", (1, 3072)),
            kit.tensor_output("c", (2,)),
        ),
    )
    model = fts.load(recipe.write(tmp_path / "net.fts"))
    feeds = {"x": picture()}
    first, second = model.infer(feeds), model.infer(feeds)
    arrays = [*first.values(), *second.values(), *feeds.values()]
    for i, a in enumerate(arrays):
        for b in arrays[:i]:
            assert not np.shares_memory(a, b)
    for array in first.values():
        array[...] = -7
    for name, array in model.infer(feeds).items():
        np.testing.assert_array_equal(array, second[name])


def test_a_later_frame_changes_no_earlier_result(model, frame):
    first = model(frame)
    kept = first.image.copy(), first.tensors["y"].copy()
    model(255 - frame)
    frame[...] = 0
    np.testing.assert_array_equal(first.image, kept[0])
    np.testing.assert_array_equal(first.tensors["y"], kept[1])
    assert not np.shares_memory(first.image, first.tensors["y"])


def test_four_threads_get_what_one_thread_gets(kit, tmp_path):
    rng = np.random.default_rng(0)
    net = kit.pointwise_qdq(rng.integers(0, 64, (3, 3)), encoded=True)
    recipe = kit.Recipe(portable=net, encoded=net, outputs=(kit.image_output(high=255.0),))
    model = fts.load(recipe.write(tmp_path / "net.fts"), threads=2)
    frames = [rng.integers(0, 256, (40, 50, 3), dtype=np.uint8) for _ in range(4)]
    expected = [model(f) for f in frames]
    wrong: list[str] = []

    def work(k: int) -> None:
        for i in range(100):
            out = model(frames[k])
            if out.image.tobytes() != expected[k].image.tobytes():
                wrong.append(f"image {k} {i}")
            if out.tensors["y"].tobytes() != expected[k].tensors["y"].tobytes():
                wrong.append(f"tensor {k} {i}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len({e.image.tobytes() for e in expected}) == 4


# --- life -------------------------------------------------------------------------------------------------------------


def test_a_closed_model_says_so(bundle, frame):
    with fts.load(bundle) as model:
        model(frame)
    assert "closed" in repr(model)
    for call in (lambda: model(frame), lambda: model.infer({"x": picture()})):
        with pytest.raises(EngineError, match=r"net\.cpu-int8\.fts: the model is closed.*fts\.load"):
            call()
    model.close()


def test_its_repr_names_the_file_and_the_engine(model):
    assert repr(model) == f"<fts.Model net.cpu-int8.fts: {model.engine}>"


@pytest.mark.parametrize("act", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_model_cannot_be_pickled_or_copied(model, act):
    with pytest.raises(TypeError, match=r"cannot be pickled.*net\.cpu-int8\.fts.*fts\.load in each process"):
        act(model)


def test_a_result_can_be_pickled(model, frame):
    again = pickle.loads(pickle.dumps(model(frame)))
    np.testing.assert_array_equal(again.image, model(frame).image)


FORKED = """
import os, sys, numpy as np, fts
model = fts.load(sys.argv[1], threads=2)
x = np.ones((1, 3, 32, 32), np.float32)
model.infer({"x": x})
for use in (True, False):
    child = os.fork()
    if child == 0:
        if use:
            try:
                model.infer({"x": x})
            except fts.EngineError as error:
                print(error, flush=True)
        sys.exit(0)
    print("child ended with", os.waitpid(child, 0)[1], flush=True)
child = os.fork()
if child == 0:
    with fts.load(sys.argv[1], threads=2) as own:
        print("own model", own.infer({"x": x})["y"].sum(), flush=True)
    sys.exit(0)
os.waitpid(child, 0)
print("parent", model.infer({"x": x})["y"].sum(), flush=True)
"""


def test_a_forked_child_gets_an_error_and_ends_while_the_parent_runs_on(bundle):
    out = subprocess.run([sys.executable, "-c", FORKED, bundle], capture_output=True, text=True, timeout=60, check=True)
    lines = out.stdout.splitlines()
    assert "used in its forked child" in lines[0]
    assert 'Call fts.load in the child, or start it with the method "spawn"' in lines[0]
    assert lines[1:] == ["child ended with 0", "child ended with 0", "own model 0.0", "parent 0.0"]
