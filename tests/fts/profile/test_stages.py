"""The engine's span inside a call of the model, and the memory of the process."""

from __future__ import annotations

import numpy as np

import fts
from fts.model import Model
from fts.profile.memory import Memory, resident_memory
from fts.profile.stages import TimedEngine


class SlowEngine:
    """Ten milliseconds, on a clock that the test moves."""

    name = "slow"
    input_names = ("x",)
    output_names = ("y",)

    def __init__(self, clock) -> None:
        self._clock = clock

    def run(self, feeds):
        self._clock.pass_ms(10)
        return [1 - feeds["x"]]


def test_the_model_runs_whole_around_an_engine_that_tells_its_span(clock, bundle, frame):
    engine = TimedEngine(SlowEngine(clock), clock)
    with fts.load(bundle) as model:
        expected = model(frame).image
        timed = Model(
            path=model.path, manifest=model.manifest, engine=engine, engine_text="slow", evidence=model.evidence
        )
    clock.pass_ms(3)
    np.testing.assert_array_equal(timed(frame).image, expected)
    assert (engine.span.begin_ns, engine.span.end_ns) == (3_000_000, 13_000_000)
    assert (engine.name, engine.input_names, engine.output_names) == ("slow", ("x",), ("y",))


def test_memory_is_read_from_the_kernel(tmp_path):
    (tmp_path / "status").write_text("Name:\tpython\nVmHWM:\t   3000 kB\nVmRSS:\t    2000 kB\nThreads:\t2\n")
    assert resident_memory(tmp_path / "status") == Memory(rss_bytes=2_048_000, peak_rss_bytes=3_072_000)
    assert resident_memory(tmp_path / "none") == Memory(rss_bytes=None, peak_rss_bytes=None)


def test_a_large_array_shows_in_the_memory_of_this_process():
    before = resident_memory().rss_bytes
    array = np.ones(64 << 20, np.uint8)
    after = resident_memory()
    assert after.rss_bytes - before > array.nbytes // 2
    assert after.peak_rss_bytes >= after.rss_bytes
