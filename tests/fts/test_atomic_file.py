from __future__ import annotations

import pytest

from fts.atomic_file import replaced_file


def test_the_file_appears_when_the_block_ends_and_keeps_its_suffix(tmp_path):
    path = tmp_path / "clip.mp4"
    with replaced_file(path) as part:
        assert part.parent == tmp_path
        assert part.suffix == ".mp4"
        part.write_bytes(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failed_block_leaves_the_old_file(tmp_path, failure):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")

    def fail() -> None:
        with replaced_file(path) as part:
            part.write_bytes(b"half")
            raise failure

    with pytest.raises(failure):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError), replaced_file(tmp_path / "none" / "a"):
        pass
