from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fts.bundle.tensors_npz import arrays_from_npz, npz_bytes
from fts.errors import BundleDamagedError

ARRAYS = hnp.arrays(
    dtype=st.sampled_from([np.float32, np.float16, np.uint8, np.int64, np.bool_]),
    shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)


@given(st.dictionaries(NAMES.filter(lambda n: "\\" not in n), ARRAYS, max_size=4))
def test_arrays_come_back_equal_and_bytes_are_stable(arrays):
    data = npz_bytes(arrays)
    again = arrays_from_npz(data)
    assert again.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array, strict=True)
    assert npz_bytes(dict(reversed(again.items()))) == data


def test_memory_order_does_not_change_the_bytes():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert npz_bytes({"a": array}) == npz_bytes({"a": np.asfortranarray(array)})


def test_numpy_reads_it():
    with np.load(io.BytesIO(npz_bytes({"in/0/x": np.ones(3)}))) as file:
        np.testing.assert_array_equal(file["in/0/x"], np.ones(3))


def test_reads_fortran_order():
    out = io.BytesIO()
    array = np.asfortranarray(np.arange(6).reshape(2, 3))
    np.savez(out, a=array)
    np.testing.assert_array_equal(arrays_from_npz(out.getvalue())["a"], array)


def test_refuses_to_write_objects():
    with pytest.raises(ValueError, match="Object arrays"):
        npz_bytes({"a": np.empty(1, object)})


def evil(header: bytes, **entry: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **entry) as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    return out.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no zip",
        evil(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
        evil(b"{'descr': '<f4', 'fortran_order': False, 'shape': (100000000000,), }"),
        evil(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"),
        evil(b"{'descr': '<f4', 'shape': (1,), }"),
        evil(b"((("),
        evil(b"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", compression=zipfile.ZIP_DEFLATED),
    ],
    ids=["empty", "text", "objects", "huge", "negative", "no order", "no literal", "compressed"],
)
def test_refuses_what_is_no_plain_npz(data):
    with pytest.raises(BundleDamagedError, match=r"golden\.npz: damaged or incomplete"):
        arrays_from_npz(data, "golden.npz")
