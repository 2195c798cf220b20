"""The net under measurement, inside the process that measures it: opened step by step, so that each step has its time."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fts.bundle.archive import Bundle, open_bundle
from fts.engines.choose import EngineChoice, choose_engine
from fts.engines.engine import Engine
from fts.engines.host import this_host
from fts.engines.onnxruntime_session import open_session
from fts.model import Model
from fts.profile.clock import Clock
from fts.profile.layers import KernelTimes, kernel_times_from_profile
from fts.profile.profiled_session import ProfiledSession
from fts.profile.stages import EngineSpan, TimedEngine
from fts.profile.tensor_producers import tensor_producers
from fts.vocabulary.manifest import PORTABLE_MEMBER

WhichNet = Literal["target", "portable"]

FRAME_KEY = "frame/"
INPUT_KEY = "input/"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetSpec:
    """Which net to measure, and with what.

    Attributes:
        bundle: Path of the bundle.
        which: The engine that `fts.load` would choose here, or the portable FP32 net.
        strict: As of `fts.load`.
        simulate: As of `fts.load`.
        threads: Threads of one inference; None for the CPUs this process may use.
        feeds: npz file: "frame/0", "frame/1", ... are frames that take turns, "input/NAME" the values of other inputs.
    """

    bundle: str
    which: WhichNet
    strict: bool
    simulate: bool
    threads: int | None
    feeds: str


class MeasuredNet:
    """A model whose engine tells when it ran.

    Attributes:
        open_ms: Checking the bundle and choosing the engine.
        engine_ms: Making the engine's session.
    """

    def __init__(self, spec: NetSpec, clock: Clock) -> None:
        begin_ns = clock.now_ns()
        self._bundle = open_bundle(spec.bundle)
        self._choice = _choice(self._bundle, spec)
        opened_ns = clock.now_ns()
        engine = open_session(
            self._bundle.read(self._choice.member),
            threads=spec.threads,
            exact_u8s8=self._choice.exact_u8s8,
            what=f"{self._bundle.path.name}: {self._choice.member}",
        )
        self.open_ms = (opened_ns - begin_ns) / 1e6
        self.engine_ms = (clock.now_ns() - opened_ns) / 1e6
        self._spec = spec
        self._engine = TimedEngine(engine, clock)
        self._model = self._model_on(self._engine)
        self._frames, self._inputs = _feeds(spec.feeds)

    def run_frame(self, index: int) -> EngineSpan:
        """Run one frame as an app would."""
        self._run(self._model, index)
        return self._engine.span

    def kernel_times(self, frames: int) -> KernelTimes:
        """Times of the engine's kernels, in a session of its own."""
        data = self._bundle.read(self._choice.member)
        with tempfile.TemporaryDirectory(prefix="fts-profile-") as folder:
            session = ProfiledSession(
                data,
                Path(folder),
                threads=self._spec.threads,
                exact_u8s8=self._choice.exact_u8s8,
            )
            model = self._model_on(session)
            for index in range(frames):
                self._run(model, index)
            return kernel_times_from_profile(
                session.finish().read_text(encoding="utf-8"), producers=tensor_producers(data)
            )

    def _model_on(self, engine: Engine) -> Model:
        return Model(
            path=self._bundle.path,
            manifest=self._bundle.manifest,
            engine=engine,
            engine_text=self._choice.text,
            evidence=self._choice.evidence,
        )

    def _run(self, model: Model, index: int) -> None:
        if self._frames:
            model(self._frames[index % len(self._frames)], self._inputs)
        else:
            model.infer(self._inputs)


def _choice(bundle: Bundle, spec: NetSpec) -> EngineChoice:
    choice = choose_engine(bundle.manifest, this_host(), bundle.path.name, strict=spec.strict, simulate=spec.simulate)
    if spec.which == "target":
        return choice
    return EngineChoice(
        member=PORTABLE_MEMBER, exact_u8s8=False, text="portable FP32 net", evidence=choice.evidence, fallback=""
    )


def _feeds(path: str) -> tuple[list[Any], Mapping[str, Any]]:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    frames = [arrays[key] for key in sorted((k for k in arrays if k.startswith(FRAME_KEY)), key=_number)]
    return frames, {k.removeprefix(INPUT_KEY): v for k, v in arrays.items() if k.startswith(INPUT_KEY)}


def _number(key: str) -> int:
    return int(key.removeprefix(FRAME_KEY))
