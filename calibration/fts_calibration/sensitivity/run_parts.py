"""Score many parts of a net, in several processes where there are cores and memory for them.

Each process opens its own sessions. Which process runs which part changes nothing: the threads of a session follow from
the number of processes alone, and results come in the order of the parts.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fts.engines.threads import available_cpus
from fts.errors import EngineError
from fts.profile.memory import resident_memory
from fts.profile.worker_process import WorkerProcess
from fts_calibration.metrics.sample_values import SampleValues
from fts_calibration.sensitivity.measure_part import PartRunner, Setting

# A process needs about a second to begin, as long as some parts of a small net take.
LEAST_PARTS_OF_A_PROCESS = 8
_WORKER = "fts_calibration.sensitivity.measure_part"
_MEMORY_INFO, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """One thing to measure.

    Attributes:
        name: Of the unit, for messages.
        model: A serialized net; None when no output depends on the unit.
    """

    name: str
    model: bytes | None


def usual_processes(parts: int) -> int:
    """How many processes are worth it for so many parts: by CPUs, free memory, and what a process costs to begin.

    One needs no more memory than this process took at its peak: that ran the whole net on the same samples.
    """
    own_bytes, free_bytes = resident_memory().peak_rss_bytes, available_memory_bytes()
    by_memory = available_cpus() if own_bytes is None or free_bytes is None else free_bytes // own_bytes
    return max(1, min(available_cpus(), by_memory, parts // LEAST_PARTS_OF_A_PROCESS))


def available_memory_bytes(memory_info: Path = _MEMORY_INFO, cgroup: Path = _CGROUP) -> int | None:
    """Memory that is free for more processes; None where the system does not tell.

    Source: proc(5), MemAvailable; Linux Documentation/admin-guide/cgroup-v2.rst, memory.max and memory.current.
    """
    found = []
    for line in _text(memory_info).splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "MemAvailable:":
            found.append(int(words[1]) * 1024)
    limit, used = (_text(cgroup / f"memory.{which}").strip() for which in ("max", "current"))
    if limit.isdigit() and used.isdigit():
        found.append(max(0, int(limit) - int(used)))
    return min(found, default=None)


def run_parts(parts: Iterable[Part], setting: Setting, *, processes: int, folder: Path) -> Iterator[SampleValues]:
    """Scores of parts, in their order.

    Args:
        parts: Made one by one, a few ahead of what runs.
        setting: Common to all; its `threads` are shared out among the processes.
        processes: How many run at a time; with one, this process does the work.
        folder: For parts on their way to a process.

    Raises:
        EngineError: onnxruntime refuses a part, or a process died; says which unit was measured.
    """
    if processes <= 1:
        runner = PartRunner(setting)
        for part in parts:
            with _named(part):
                values = runner.values_of(part.model)
            yield values
        return
    shared = replace(setting, threads=max(1, setting.threads // processes))
    workers = [WorkerProcess(_WORKER) for _ in range(processes)]
    pool = ThreadPoolExecutor(processes)
    try:
        yield from _spread(parts, shared, workers, pool, folder)
    except BaseException:
        for worker in workers:
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        for worker in workers:
            worker.close()


def _spread(
    parts: Iterable[Part], setting: Setting, workers: list[WorkerProcess], pool: ThreadPoolExecutor, folder: Path
) -> Iterator[SampleValues]:
    idle: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
    for worker in workers:
        worker.ask("open", **setting.to_json())
        idle.put(worker)
    in_process = PartRunner(setting)

    def measure(part: Part, file: Path) -> SampleValues:
        worker = idle.get()
        try:
            with _named(part):
                values: SampleValues = worker.ask("measure", file=str(file))["values"]
            return values
        finally:
            idle.put(worker)

    def begin(number: int, part: Part) -> Callable[[], SampleValues]:
        if part.model is None:
            return lambda: in_process.values_of(None)
        file = folder / f"part_{number}.onnx"
        file.write_bytes(part.model)
        future: Future[SampleValues] = pool.submit(measure, part, file)
        return future.result

    # As many are on their way as run, so that the disk holds no more than two a process.
    waiting: deque[Callable[[], SampleValues]] = deque()
    for number, part in enumerate(parts):
        if len(waiting) >= 2 * len(workers):
            yield waiting.popleft()()
        waiting.append(begin(number, part))
    while waiting:
        yield waiting.popleft()()


@contextmanager
def _named(part: Part) -> Iterator[None]:
    """Say in an error which unit was measured."""
    try:
        yield
    except EngineError as cause:
        raise EngineError(f"unit {part.name!r} alone in INT8: {cause}") from cause


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
