"""What a field case does with the runtime, in a process of its own, so that a crash in native code ends only this one.

    child.py infer BUNDLE PROBE.npz OUT.npz      run every probe sample, write the outputs, print the signature
    child.py load [--strict] BUNDLE...           load each in turn, print how each ended
    child.py views BUNDLE FRAMES.npz EXPRESSION...
    child.py results BUNDLE FRAMES.npz

One line of JSON on stdout.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import fts

Arrays = dict[str, npt.NDArray[Any]]
RUNS_PER_THREAD = 100


def read_arrays(path: str) -> Arrays:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def infer(bundle: str, probe: str, out: str) -> object:
    """Run the probe's samples one by one; the leading axis of each array counts them."""
    feeds = read_arrays(probe)
    with fts.load(bundle, simulate=True) as model:
        count = len(next(iter(feeds.values())))
        results = [model.infer({name: array[i] for name, array in feeds.items()}) for i in range(count)]
        stacked: dict[str, Any] = {name: np.stack([result[name] for result in results]) for name in results[0]}
        np.savez(out, **stacked)
        return {"inputs": [signature(t) for t in model.inputs], "outputs": [signature(t) for t in model.outputs]}


def signature(tensor: Any) -> dict[str, object]:
    spec = getattr(tensor, "spec", tensor)
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}


def load(bundles: list[str], strict: bool) -> object:
    """How each load ended: a documented error is one of fts.errors."""
    endings = []
    for bundle in bundles:
        start_s = time.monotonic()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with fts.load(bundle, strict=strict) as model:
                    ending: dict[str, object] = {"loaded": True, "engine": str(model.engine), "text": ""}
            except fts.FtsError as error:
                ending = {"loaded": False, "error": type(error).__name__, "text": str(error)}
        ending["seconds"] = time.monotonic() - start_s
        ending["warnings"] = [f"{type(w.message).__name__}: {w.message}" for w in caught]
        endings.append(ending)
    return endings


def result_bytes(out: Any) -> dict[str, bytes]:
    """Everything a call returned, as bytes with its type and shape."""
    arrays = {**out.tensors, **{f"{name} (image)": image for name, image in out.images.items()}}
    return {k: f"{v.dtype} {v.shape} ".encode() + np.ascontiguousarray(v).tobytes() for k, v in arrays.items()}


def readonly(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view: npt.NDArray[Any] = array.view()
    view.flags.writeable = False
    return view


def views(bundle: str, frames: str, expressions: list[str]) -> object:
    """Every view gives the bytes of its contiguous copy, and stays as it was."""
    a = read_arrays(frames)["a"]
    before = a.tobytes()
    problems = []
    with fts.load(bundle, simulate=True) as model:
        for expression in expressions:
            view = eval(expression, {"a": a, "np": np, "readonly": readonly})
            copy = np.array(view, order="C", copy=True)
            try:
                if result_bytes(model(view)) != result_bytes(model(copy)):
                    problems.append(f"{expression}: not the result of its contiguous copy")
            except (fts.FtsError, ValueError, TypeError) as error:
                problems.append(f"{expression}: {type(error).__name__}: {error}")
            if view.tobytes() != copy.tobytes() or a.tobytes() != before:
                problems.append(f"{expression}: the frame was changed")
    return problems


def results(bundle: str, frames: str) -> object:
    """Results stay what they were: after another run, with several threads, after the frame changes."""
    pictures = read_arrays(frames)
    problems: list[str] = []
    with fts.load(bundle, simulate=True) as model:
        alone = {name: result_bytes(model(picture)) for name, picture in pictures.items()}

        first = model(pictures["a"])
        second = model(pictures["b"])
        if result_bytes(first) != alone["a"]:
            problems.append("the first result changed when another frame ran")
        if any(np.shares_memory(first.tensors[k], second.tensors[k]) for k in first.tensors):
            problems.append("two results share memory")

        frame = pictures["c"].copy()
        third = model(frame)
        frame[:] = 0
        if result_bytes(third) != alone["c"]:
            problems.append("a result changed with its frame")

        def work(name: str) -> None:
            try:
                for _ in range(RUNS_PER_THREAD):
                    if result_bytes(model(pictures[name])) != alone[name]:
                        problems.append(f"thread {name}: another result than alone")
                        return
            except fts.FtsError:
                return  # a documented refusal of several threads is right too

        threads = [threading.Thread(target=work, args=(name,)) for name in pictures]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return problems


def main(arguments: list[str]) -> int:
    what, *rest = arguments
    if what == "infer":
        answer = infer(*rest)
    elif what == "load":
        answer = load([part for part in rest if part != "--strict"], strict="--strict" in rest)
    elif what == "views":
        answer = views(rest[0], rest[1], rest[2:])
    elif what == "results":
        answer = results(*rest)
    else:
        print(f"{Path(__file__).name}: unknown action {what!r}", file=sys.stderr)
        return 2
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
