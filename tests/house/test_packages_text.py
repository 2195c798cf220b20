"""What stands in the packages' files, and what must not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import fetch_assets
import pytest

import fts

PACKAGES = ("sdk/fts", "converters/fts_converters", "calibration/fts_calibration", "devices/fts_devices")
FAMILIES = (
    "cyclegan",
    "vintagify",
    "styletransfer",
    "multistyle",
    "centerface",
    "mtcnn",
    "srvgg",
    "realesr",
    "rapidocr",
)


def package_files(root: Path) -> Iterator[Path]:
    for package in PACKAGES:
        yield from (path for path in (root / package).rglob("*") if path.suffix in (".py", ".json", ".toml", ".md"))


def test_no_benchmark_net_is_named_in_the_packages(root: Path) -> None:
    """A special case for a net that the figures are measured on would make the figures worthless."""
    assets = [a for a in fetch_assets.read_table().values() if not a.what.startswith("photo")]
    words = {a.name for a in assets} | {a.file_name.rpartition(".")[0] for a in assets}
    digests = {a.sha256[:12] for a in assets}
    pattern = re.compile(
        rf"\b(?:{'|'.join(map(re.escape, sorted(words)))})\b|{'|'.join(sorted(digests) + list(FAMILIES))}", re.I
    )
    found = {
        f"{path.relative_to(root)}: {match.group()}"
        for path in package_files(root)
        for match in [pattern.search(path.read_text(encoding="utf-8"))]
        if match
    }
    assert not found


@pytest.mark.parametrize("name", [name for name in fts.__all__ if name != "__version__"])
def test_public_name_is_documented(name: str) -> None:
    thing = getattr(fts, name)
    text = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    assert text, f"fts.{name} has no docstring of its own"
    assert not text.startswith(f"{name}("), f"fts.{name} has only the signature that dataclass writes"


def test_all_and_the_lazy_table_agree() -> None:
    assert sorted(fts.__all__) == dir(fts)
    assert list(fts.__all__) == sorted(fts.__all__)
