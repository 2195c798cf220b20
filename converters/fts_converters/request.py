"""What the user asked for, as one typed value; made by the command, read by the flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fts_calibration.metrics.budget import AskedBudgets
from fts_converters.recover.ladder import RecoverLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class PreprocessingFlags:
    """`--color`, `--scale` … as given; None where the flag is absent."""

    color: str | None = None
    scale: float | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    layout: str | None = None
    fit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertRequest:
    """One conversion.

    Attributes:
        source: Model as typed.
        target: Target name.
        calib: Calibration source as typed.
        holdout: Verify split as typed, or None.
        output: Final path of the bundle.
        card: Path of the model card, or None.
        shapes: Input name to forced shape.
        preprocessing: Flags.
        budgets: `--budget`.
        min_int8: Least share of MACs in integer kernels, 0..1.
        recover: Highest rung of the recovery ladder that may be tried.
        minutes: Limit of its training rung.
        min_speedup: Least ratio of FP32 time to INT8 time on this machine, or None for no condition.
        isa: "auto", "vnni" or "any".
        sensitivity: How units are measured alone, "fast" or "full"; None for the usual way.
        faces: boxes.json with the faces of the calibration pictures, or None.
        detects_faces: Look for them where there is no boxes.json.
        select: How many calibration pictures to choose, or None for all.
        skip_passes: Names of cleaning passes to leave out.
        golden: File with golden inputs, or None for synthetic ones.
        use_cache: Read and write the stage cache.
        arguments: The command's arguments as typed, empty when there was no command.
    """

    source: str
    target: str
    calib: str
    output: Path
    holdout: str | None = None
    card: Path | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    preprocessing: PreprocessingFlags = field(default_factory=PreprocessingFlags)
    budgets: AskedBudgets = field(default_factory=AskedBudgets)
    min_int8: float = 0.5
    min_speedup: float | None = None
    recover: RecoverLevel = "rounding"
    minutes: float = 5.0
    isa: str = "auto"
    sensitivity: Literal["fast", "full"] | None = None
    faces: Path | None = None
    detects_faces: bool = False
    select: int | None = None
    skip_passes: tuple[str, ...] = ()
    golden: str | None = None
    use_cache: bool = True
    arguments: tuple[str, ...] = ()

    @property
    def is_face_net(self) -> bool:
        """True when the user says that the net is for faces."""
        return self.faces is not None or self.detects_faces

    @property
    def is_budget_none(self) -> bool:
        """True for `--budget none`: nothing is judged, all files calibrate."""
        return self.budgets.is_none
