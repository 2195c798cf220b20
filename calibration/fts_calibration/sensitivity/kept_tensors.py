"""FP32 tensors of every sample on disk: what a net that is cut there begins with."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from fts.engines.onnxruntime_session import open_session
from fts_calibration.sensitivity.float_net import FloatNet, part_of

Arrays = Mapping[str, npt.NDArray[np.generic]]

# Of one sample in memory, and of all on disk. A 256 x 256 style net has some 250 MB of activations a sample; where
# they do not fit, fewer cuts are kept and more is computed again.
SAMPLE_LIMIT_BYTES = 512 * 2**20
DISK_LIMIT_BYTES = 2 * 2**30
# Of the disk's free space: other things of this machine want some, too.
DISK_SHARE = 0.5


class KeptTensors:
    """Inputs, tensors at cuts and FP32 outputs of each sample, one file each; a context manager that removes them.

    Attributes:
        folder: Where they lie.
        names: Tensors that can be loaded.
        outputs: Outputs whose FP32 values can be loaded.
        samples: How many.
    """

    def __init__(self, folder: Path, names: Sequence[str], outputs: Sequence[str], samples: int) -> None:
        self.folder = folder
        self.names = tuple(names)
        self.outputs = tuple(outputs)
        self.samples = samples
        self._places = {name: place for place, name in enumerate(self.names)}
        self._output_places = {name: place for place, name in enumerate(self.outputs)}

    def load(self, sample: int, names: Iterable[str]) -> dict[str, npt.NDArray[np.generic]]:
        """Tensors of one sample by name."""
        return {name: np.load(self._file(sample, name), allow_pickle=False) for name in names}

    def reference(self, sample: int) -> dict[str, npt.NDArray[np.generic]]:
        """FP32 outputs of one sample by name."""
        return {name: np.load(self._output_file(sample, name), allow_pickle=False) for name in self.outputs}

    def put(self, sample: int, values: Arrays) -> None:
        """Keep tensors of one sample."""
        for name, value in values.items():
            np.save(self._file(sample, name), value, allow_pickle=False)

    def put_reference(self, sample: int, values: Arrays) -> None:
        """Keep FP32 outputs of one sample."""
        for name in self.outputs:
            np.save(self._output_file(sample, name), values[name], allow_pickle=False)

    def _file(self, sample: int, name: str) -> Path:
        return self.folder / f"{sample}_{self._places[name]}.npy"

    def _output_file(self, sample: int, name: str) -> Path:
        return self.folder / f"{sample}_out_{self._output_places[name]}.npy"

    def __enter__(self) -> KeptTensors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def keep_tensors(
    net: FloatNet,
    weights: Mapping[str, npt.NDArray[np.generic]],
    tensors: Sequence[str],
    feeds: Iterable[Arrays],
    references: Iterable[Arrays],
    samples: int,
    outputs: Sequence[str],
) -> KeptTensors:
    """Run the FP32 net once a sample and keep what is asked for; the net's inputs come along.

    Args:
        net: The FP32 net.
        weights: Values of initializers that are external tensors, by name.
        tensors: What to keep; see `tensors_to_keep`.
        feeds: Samples.
        references: FP32 outputs of the same samples, as they are scored against.
        samples: How many.
        outputs: Those of them to keep.
    """
    inside = [name for name in tensors if name not in net.inputs]
    folder = Path(tempfile.mkdtemp(prefix="fts-sensitivity-"))
    kept = KeptTensors(folder, [*net.inputs, *inside], outputs, samples)
    try:
        session = None
        if inside:
            watching = part_of(net.model, [net.types[n] for n in inside], [net.types[n] for n in net.inputs])
            used = {t.name for t in watching.graph.initializer}
            session = open_session(
                watching.SerializeToString(),
                weights={name: value for name, value in weights.items() if name in used},
                what="the cleaned net",
            )
        for sample, (feed, reference) in enumerate(zip(feeds, references, strict=True)):
            kept.put(sample, {name: feed[name] for name in net.inputs})
            kept.put_reference(sample, reference)
            if session is not None:
                values = session.run({name: feed[name] for name in session.input_names})
                kept.put(sample, dict(zip(session.output_names, values, strict=True)))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return kept


def tensors_to_keep(
    net: FloatNet,
    units: Sequence[str],
    samples: int,
    *,
    sample_limit_bytes: int = SAMPLE_LIMIT_BYTES,
    disk_limit_bytes: int | None = None,
) -> tuple[str, ...]:
    """What crosses the graph in front of every unit; of every second, fourth … where that would be too much.

    Args:
        net: The FP32 net.
        units: Names of their main nodes.
        samples: How many will be kept.
        sample_limit_bytes: Most bytes of one sample.
        disk_limit_bytes: Most bytes of all; None for DISK_LIMIT_BYTES, or the share of the free space that is less.
    """
    if disk_limit_bytes is None:
        free_bytes = shutil.disk_usage(tempfile.gettempdir()).free
        disk_limit_bytes = min(DISK_LIMIT_BYTES, int(free_bytes * DISK_SHARE))
    limit_bytes = min(sample_limit_bytes, disk_limit_bytes // max(samples, 1))
    places = sorted({net.place(unit) for unit in units})
    step = 1
    while step <= len(places):
        found = dict.fromkeys(name for place in places[::-1][::step] for name in net.crossing(place))
        inside = [name for name in found if name not in net.inputs]
        if sum(net.size_bytes(name) for name in inside) <= limit_bytes:
            return tuple(inside)
        step *= 2
    return ()
