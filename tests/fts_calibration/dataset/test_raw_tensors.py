"""npz folders, one npz with a sample axis, and Python iterables."""

from __future__ import annotations

import gc
import sys
import textwrap
import zipfile

import numpy as np
import pytest

from fts.errors import CalibrationError, EmptyCalibrationSetError
from fts_calibration.dataset import spool
from fts_calibration.dataset.source import open_calibration
from fts_calibration.dataset.splits import deal_splits


def all_feeds(found):
    return list(deal_splits(found, all_calibrate=True).feeds("calibrate"))


def by_first_value(feeds):
    return sorted(feeds, key=lambda feed: float(feed["x"].flat[0]))


@pytest.fixture
def both(sets):
    return [sets.image(mean=(9.0,) * 3), sets.tensor()]


def samples_of(sets, count):
    return [{"x": sets.sample(i), "age": np.full((1, 4), i, np.float32)} for i in range(count)]


def write_folder(folder, samples):
    folder.mkdir()
    for index, sample in enumerate(samples):
        np.savez(folder / f"sample_{index}.npz", **sample)
    return str(folder)


def write_module(tmp_path, monkeypatch, name, text):
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)


# --- all forms -------------------------------------------------------------------------------------------------------


def test_all_forms_feed_the_same_raw_arrays_without_preprocessing(sets, both, tmp_path, monkeypatch):
    samples = samples_of(sets, 5)
    folder = write_folder(tmp_path / "folder", samples)
    stacked = {key: np.stack([sample[key] for sample in samples]) for key in ("x", "age")}
    np.savez(tmp_path / "plain.npz", **stacked)
    np.savez_compressed(tmp_path / "packed.npz", **stacked)
    np.savez(tmp_path / "source.npz", **stacked)
    module = """
        import numpy as np
        def feeds():
            data = np.load("source.npz")
            for x, age in zip(data["x"], data["age"]):
                yield {"age": age, "x": x}
    """
    write_module(tmp_path, monkeypatch, "raw_feeds_a", module)
    paths = (folder, str(tmp_path / "plain.npz"), str(tmp_path / "packed.npz"), "raw_feeds_a:feeds")
    for path in paths:
        found = open_calibration(path, both)
        assert all(record.status == "used" and record.mean_rgb is None for record in found.files)
        for feed, sample in zip(by_first_value(all_feeds(found)), by_first_value(samples), strict=True):
            assert list(feed) == ["x", "age"]
            for key in feed:
                assert feed[key].dtype == np.float32
                assert np.array_equal(feed[key], sample[key])


def test_doubles_and_half_floats_become_the_inputs_type(sets, both, tmp_path):
    samples = [{"x": sets.sample(0).astype(np.float64), "age": np.ones((1, 4), np.float16)}]
    (feed,) = all_feeds(open_calibration(write_folder(tmp_path / "c", samples), both))
    assert feed["x"].dtype == feed["age"].dtype == np.float32


def test_a_tensor_with_card_values_may_be_left_out_and_is_combined_with_its_rows(sets, tmp_path):
    requests = [sets.image(), sets.tensor(values=np.eye(4))]
    feeds = all_feeds(open_calibration(write_folder(tmp_path / "c", [{"x": sets.sample(0)}]), requests))
    assert [int(feed["age"].argmax()) for feed in feeds] == [0, 1, 2, 3]
    given = [{"x": sets.sample(0), "age": np.zeros((1, 4), np.float32)}]
    (feed,) = all_feeds(open_calibration(write_folder(tmp_path / "d", given), requests))
    assert not feed["age"].any()


@pytest.mark.parametrize("name", ["file", "input.1", "allow_pickle", "block/0/x"])
def test_inputs_may_have_any_name(sets, tmp_path, name):
    with zipfile.ZipFile(tmp_path / "s.npz", "w") as archive, archive.open(f"{name}.npy", "w") as member:
        np.lib.format.write_array(member, np.stack([sets.sample(i) for i in range(2)]))
    feeds = all_feeds(open_calibration(str(tmp_path / "s.npz"), [sets.image(name)]))
    assert [list(feed) for feed in feeds] == [[name], [name]]


# --- a folder of npz -------------------------------------------------------------------------------------------------

OK_AGE = np.zeros((1, 4), np.float32)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"image": np.zeros((1, 3, 8, 8), np.float32), "age": OK_AGE}, ["['age', 'image']", "['x', 'age']"]),
        ({"x": np.zeros((1, 3, 8, 8), np.float32)}, ["['x']", "missing: ['age']"]),
        (
            {"x": np.zeros((1, 3, 8, 8), np.float32), "age": OK_AGE, "extra": OK_AGE},
            ["unknown: ['extra']"],
        ),
        (
            {"x": np.zeros((3, 8, 8), np.float32), "age": OK_AGE},
            ["key 'x'", "found float32 (3, 8, 8)", "expected float32 (1, 3, 8, 8)", "x[None]"],
        ),
        (
            {"x": np.zeros((5, 1, 3, 8, 8), np.float32), "age": OK_AGE},
            ["found float32 (5, 1, 3, 8, 8)", "one .npz file"],
        ),
        ({"x": np.zeros((1, 3, 8, 9), np.float32), "age": OK_AGE}, ["(1, 3, 8, 9)", "(1, 3, 8, 8)"]),
        ({"x": np.full((1, 3, 8, 8), np.nan, np.float32), "age": OK_AGE}, ["key 'x'", "192 NaN or infinite"]),
        ({"x": np.full((1, 3, 8, 8), 1e300), "age": OK_AGE}, ["key 'x'", "192 NaN or infinite values as float32"]),
        ({"x": np.zeros((1, 3, 8, 8), np.complex64), "age": OK_AGE}, ["key 'x'", "complex64", "numeric"]),
        ({"x": np.array([["a"]]), "age": OK_AGE}, ["key 'x'", "<U1", "numeric"]),
        ({"x": np.array([{}], object), "age": OK_AGE}, ["key 'x'", "allow_pickle=False", "numeric dtype"]),
    ],
    ids=[
        "wrong-key",
        "missing",
        "extra",
        "no-batch",
        "samples",
        "size",
        "nan",
        "overflow",
        "complex",
        "text",
        "pickle",
    ],
)
def test_wrong_arrays_name_file_key_found_and_expected(both, tmp_path, arrays, words):
    folder = write_folder(tmp_path / "c", [arrays])
    with pytest.raises(CalibrationError) as caught:
        open_calibration(folder, both)
    for word in ["sample_0.npz", *words]:
        assert word in str(caught.value)


def test_floats_do_not_feed_an_integer_input_and_large_integers_do_not_wrap(sets, tmp_path):
    request = sets.image(dtype="uint8", scale=1.0)
    with pytest.raises(CalibrationError, match=r"found float32 .* expected uint8 .*astype\('uint8'\)"):
        open_calibration(write_folder(tmp_path / "a", [{"x": np.zeros((1, 3, 8, 8), np.float32)}]), [request])
    with pytest.raises(CalibrationError, match="values of uint16 do not fit, expected uint8"):
        open_calibration(write_folder(tmp_path / "b", [{"x": np.full((1, 3, 8, 8), 256, np.uint16)}]), [request])
    (feed,) = all_feeds(
        open_calibration(write_folder(tmp_path / "c", [{"x": np.full((1, 3, 8, 8), 255, np.uint16)}]), [request])
    )
    assert feed["x"].dtype == np.uint8
    assert (feed["x"] == 255).all()


def test_damaged_archives_are_skipped_with_a_reason_and_shown(sets, both, tmp_path):
    folder = tmp_path / "c"
    write_folder(folder, samples_of(sets, 2))
    whole = (folder / "sample_0.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.npz").write_bytes(b"")
    flipped = bytearray(whole)
    flipped[400] ^= 1
    (folder / "flipped.npz").write_bytes(flipped)
    (folder / "notes.txt").write_text("hi")
    found = open_calibration(str(folder), both)
    reasons = {record.path: record.reason for record in found.files if record.status == "skipped"}
    assert set(reasons) == {"cut.npz", "empty.npz", "flipped.npz", "notes.txt"}
    assert all("cannot be read as .npz" in reasons[name] for name in ("cut.npz", "empty.npz", "flipped.npz"))
    assert {record.path for record in found.notable} == {"cut.npz", "empty.npz", "flipped.npz"}


def test_pictures_and_npz_in_one_folder_are_refused(sets, both, tmp_path):
    folder = tmp_path / "c"
    write_folder(folder, samples_of(sets, 2))
    sets.folder(folder, 3)
    with pytest.raises(CalibrationError, match=r"found 3 pictures and 2 \.npz in one folder, expected one kind"):
        open_calibration(str(folder), both)


def test_npz_files_are_ordered_by_content_and_equal_ones_count_once(sets, both, tmp_path):
    folder = tmp_path / "c"
    write_folder(folder, samples_of(sets, 5))
    (folder / "again.npz").write_bytes((folder / "sample_3.npz").read_bytes())
    found = open_calibration(str(folder), both)
    hashes = [sample.record.sha256 for sample in found.samples]
    assert hashes == sorted(set(hashes))
    assert len(hashes) == 5
    assert [record.path for record in found.files if record.status == "duplicate"] == ["sample_3.npz"]


# --- one npz ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "hint"),
    [
        (np.zeros((1, 3, 8, 8), np.float32), "Add the sample axis: x[None]"),
        (np.zeros((6, 3, 8, 8), np.float32), "Add the batch axis behind the sample axis: x[:, None]"),
        (np.zeros((6, 1, 3, 9, 8), np.float32), "full shape"),
        (np.float32(1), "sample axis in front"),
        (np.asfortranarray(np.zeros((6, 1, 3, 8, 8), np.float32)), "np.ascontiguousarray"),
    ],
    ids=["no-sample-axis", "no-batch-axis", "other-size", "scalar", "Fortran"],
)
def test_one_npz_of_the_wrong_shape_says_what_to_write(sets, tmp_path, x, hint):
    np.savez(tmp_path / "s.npz", x=x)
    with pytest.raises(CalibrationError) as caught:
        open_calibration(str(tmp_path / "s.npz"), [sets.image()])
    message = str(caught.value)
    assert "s.npz, key 'x'" in message
    assert str(np.shape(x)) in message
    assert hint in message


def test_one_npz_with_different_counts_names_them(both, tmp_path):
    np.savez(tmp_path / "s.npz", x=np.zeros((5, 1, 3, 8, 8), np.float32), age=np.zeros((4, 1, 4), np.float32))
    with pytest.raises(CalibrationError, match=r"\{'x': 5, 'age': 4\}, expected one count"):
        open_calibration(str(tmp_path / "s.npz"), both)


def test_one_npz_with_a_nan_names_the_sample(sets, tmp_path):
    x = np.stack([sets.sample(i) for i in range(4)])
    x[2, 0, 0, 0, 0] = np.inf
    np.savez(tmp_path / "s.npz", x=x)
    with pytest.raises(CalibrationError, match=r"s\.npz\[2\], key 'x': found 1 NaN or infinite"):
        open_calibration(str(tmp_path / "s.npz"), [sets.image()])


def test_one_npz_without_samples_is_empty_and_a_damaged_one_is_named(sets, tmp_path):
    np.savez(tmp_path / "s.npz", x=np.zeros((0, 1, 3, 8, 8), np.float32))
    with pytest.raises(EmptyCalibrationSetError, match=r"s\.npz: no usable picture"):
        open_calibration(str(tmp_path / "s.npz"), [sets.image()])
    np.savez(tmp_path / "d.npz", x=np.stack([sets.sample(0)]))
    (tmp_path / "d.npz").write_bytes((tmp_path / "d.npz").read_bytes()[:300])
    with pytest.raises(CalibrationError, match=r"d\.npz: cannot be read as \.npz"):
        open_calibration(str(tmp_path / "d.npz"), [sets.image()])


def test_pickles_in_one_npz_are_never_loaded(sets, tmp_path):
    np.savez(tmp_path / "s.npz", x=np.array([{}], object))
    with pytest.raises(CalibrationError, match="key 'x': found object, expected a numeric array"):
        open_calibration(str(tmp_path / "s.npz"), [sets.image()])


def test_one_npz_is_read_a_sample_at_a_time(sets, tmp_path, monkeypatch):
    np.savez(tmp_path / "s.npz", x=np.stack([sets.sample(i) for i in range(6)]))
    sizes = []
    check = spool.feed_from_mapping

    def watching(arrays, inputs, where):
        sizes.append(arrays["x"].shape)
        return check(arrays, inputs, where)

    monkeypatch.setattr(spool, "feed_from_mapping", watching)
    monkeypatch.setattr(np, "load", lambda *args, **kwargs: pytest.fail("np.load holds all samples in memory"))
    open_calibration(str(tmp_path / "s.npz"), [sets.image()])
    assert sizes == [(1, 3, 8, 8)] * 6


# --- iterables -------------------------------------------------------------------------------------------------------


def test_an_iterable_is_read_once_in_its_order_and_can_be_fed_many_times(sets, tmp_path, monkeypatch):
    module = """
        import numpy as np
        passes = []
        class Feeds:
            def __iter__(self):
                passes.append(1)
                buffer = np.empty((1, 3, 8, 8), np.float32)
                for value in (5, 3, 4, 1):
                    buffer[:] = value
                    yield {"x": buffer}
        feeds = Feeds()
    """
    write_module(tmp_path, monkeypatch, "raw_feeds_b", module)
    found = deal_splits(open_calibration("raw_feeds_b:feeds", [sets.image()]), all_calibrate=True)
    for _ in range(2):
        assert [feed["x"].flat[0] for feed in found.feeds("calibrate")] == [5, 3, 4, 1]
    assert [record.path for record in found.files] == [f"raw_feeds_b:feeds[{i}]" for i in range(4)]
    assert sys.modules["raw_feeds_b"].passes == [1]
    assert str(tmp_path) not in sys.path


def test_the_temporary_folder_lives_as_long_as_the_set_and_no_longer(sets, tmp_path, monkeypatch):
    monkeypatch.setattr(spool.tempfile, "tempdir", str(tmp_path))
    np.savez(tmp_path / "s.npz", x=np.stack([sets.sample(i) for i in range(3)]))
    found = open_calibration(str(tmp_path / "s.npz"), [sets.image()])
    assert list(tmp_path.glob("fts-calibration-*"))
    assert len(all_feeds(found)) == 3
    del found
    gc.collect()
    assert not list(tmp_path.glob("fts-calibration-*"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("feeds = 7", "TypeError: it is a int, not an iterable"),
        ("def feeds():\n    raise RuntimeError('no camera')", "RuntimeError: no camera"),
        ("def feeds():\n    yield {'x': 1}\n    raise KeyError('later')", "found int64 ()"),
        ("def feeds():\n    yield [1, 2]", "[0]: found a list, expected a mapping"),
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("other = []", "AttributeError: module"),
        ("feeds = []", "no usable picture (0 usable of 0 files)"),
    ],
    ids=["number", "raises", "scalar", "list", "import", "attribute", "empty"],
)
def test_wrong_iterables_are_errors_of_the_input_with_their_cause(sets, tmp_path, monkeypatch, request, body, words):
    name = "raw_feeds_" + re_safe(request.node.callspec.id)
    write_module(tmp_path, monkeypatch, name, body)
    with pytest.raises(CalibrationError) as caught:
        open_calibration(f"{name}:feeds", [sets.image()])
    assert words in str(caught.value)
    assert f"{name}:feeds" in str(caught.value)


def re_safe(text: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in text)
