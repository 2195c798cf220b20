"""FP32 outputs over a split, kept on disk so that memory does not grow with the number of samples."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from fts.engines.onnxruntime_session import OrtSession

Arrays = Mapping[str, npt.NDArray[np.generic]]


class ReferenceOutputs:
    """Runs the FP32 net once over a split; a context manager that removes its files.

    Attributes:
        peaks: Output name to the range of the FP32 output over the split, 255 for uint8 (DESIGN: --budget).
    """

    def __init__(self, session: OrtSession, feeds: Iterable[Arrays]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fts-reference-")
        self._outputs = session.output_names
        self._count = 0
        low: dict[str, float] = {}
        high: dict[str, float] = {}
        dtypes: dict[str, np.dtype[np.generic]] = {}
        for feed in feeds:
            values = session.run(feed)
            for position, (name, value) in enumerate(zip(self._outputs, values, strict=True)):
                np.save(self._file(self._count, position), value, allow_pickle=False)
                dtypes[name] = value.dtype
                if value.size:
                    low[name] = min(low.get(name, np.inf), float(value.min()))
                    high[name] = max(high.get(name, -np.inf), float(value.max()))
            self._count += 1
        self.peaks = {n: 255.0 if dtypes[n] == np.uint8 else _peak(low.get(n, 0.0), high.get(n, 0.0)) for n in dtypes}

    def _file(self, sample: int, output: int) -> Path:
        return Path(self._folder.name) / f"{sample}_{output}.npy"

    def __iter__(self) -> Iterator[Arrays]:
        for sample in range(self._count):
            yield {
                name: np.load(self._file(sample, position), allow_pickle=False)
                for position, name in enumerate(self._outputs)
            }

    def __len__(self) -> int:
        return self._count

    def __enter__(self) -> ReferenceOutputs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()


def _peak(low: float, high: float) -> float:
    return (high - low) or abs(high) or 1.0
