"""Run one method of a rival in its own process and Python: `PYTHON child.py RIVAL METHOD SOURCE FEEDS FOLDER`.

Writes FOLDER/result.json: for each of the method's settings a file or an error, its seconds, and the process's peak
memory. Imports nothing of fts.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
import traceback
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any


def feeds_from_npz(path: Path) -> list[dict[str, Any]]:
    """Every row of every array as a batch of one."""
    import numpy as np

    with np.load(path) as arrays:
        columns = {name: arrays[name] for name in arrays.files}
    count = len(next(iter(columns.values())))
    return [{name: rows[i : i + 1] for name, rows in columns.items()} for i in range(count)]


def peak_bytes() -> int:
    """Peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def converted(
    rival: Any, method: str, source: Path, feeds: list[dict[str, Any]], folder: Path
) -> Iterator[dict[str, Any]]:
    """One row for each of the settings; settings that fail do not stop those behind them."""
    left = list(rival.METHODS[method])
    done = 0
    while left:
        files = rival.convert(tuple(left), source, feeds, folder / str(done))
        (folder / str(done)).mkdir()
        for settings in tuple(left):
            row: dict[str, Any] = {"settings": settings}
            begin = time.perf_counter()
            try:
                row["file"] = str(next(files).relative_to(folder))
            except Exception as cause:  # noqa: BLE001 - a foreign tool's failure is a row of the table
                row["error"] = f"{type(cause).__name__}: {' '.join(str(cause).split())[:300]}"
                traceback.print_exc()
            row["seconds"] = time.perf_counter() - begin
            left.pop(0)
            done += 1
            yield row
            if "error" in row:
                break


def main() -> None:
    name, method, source, feeds, folder = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    rival = importlib.import_module(name)
    result: dict[str, Any] = {"rows": [], "is_complete": False, "versions": {p: version(p) for p in rival.PACKAGES}}
    for row in converted(rival, method, Path(source), feeds_from_npz(Path(feeds)), Path(folder)):
        result["rows"].append(row)
        result["peak_bytes"] = peak_bytes()
        result["is_complete"] = len(result["rows"]) == len(rival.METHODS[method])
        (Path(folder) / "result.json").write_text(json.dumps(result, indent=1))  # now: the next may not end in time


if __name__ == "__main__":
    main()
