"""Every error of fts: one root, one family per concern, precise classes where a caller may want to react.

A message says what, where, found, expected, and what to do. `exit_code` is what a command ends with:
2 wrong input, 3 a condition was not met, 4 something is missing in the environment (DESIGN: exit codes).
"""

from __future__ import annotations

from typing import ClassVar


class FtsError(Exception):
    """Root of all errors raised for wrong input, unmet conditions and missing parts of the environment."""

    exit_code: ClassVar[int] = 2


class UsageError(FtsError):
    """A command line or an option that cannot be understood, or that this version does not offer."""


class MissingDependencyError(FtsError):
    """A library or tool is not installed; the message holds the line to type."""

    exit_code = 4


# --- the model file ---------------------------------------------------------------------------------------------------


class ModelError(FtsError):
    """The model file cannot be read, is invalid, or needs something this version does not offer."""


class ModelFileError(ModelError):
    """The file is missing, unreadable, or not the format it should be."""


class UnsupportedOpError(ModelError):
    """No engine of the target can run a node."""

    def __init__(self, message: str, *, node: str, op_type: str, domain: str, engine: str) -> None:
        super().__init__(message)
        self.node = node
        self.op_type = op_type
        self.domain = domain
        self.engine = engine


class NonFiniteValueError(ModelError):
    """NaN or infinity where a finite number is needed."""


class ShapeError(ModelError):
    """A dimension is unknown, or a requested shape contradicts the net."""


class CardError(ModelError):
    """The model card (TOML) or a preprocessing flag is wrong."""


# --- calibration data -------------------------------------------------------------------------------------------------


class CalibrationError(FtsError):
    """The calibration data cannot be used."""


class EmptyCalibrationSetError(CalibrationError):
    """No usable picture or sample was found."""


class ImageDecodeError(CalibrationError):
    """A picture file cannot be decoded; the text is the reason alone, for a list of skipped files."""


# --- the plan ---------------------------------------------------------------------------------------------------------


class PlanError(FtsError):
    """No plan satisfies what was asked."""


class BudgetNotMetError(PlanError):
    """The accuracy budget, or the least share of integer arithmetic, was not reached."""

    exit_code = 3


# --- engines ----------------------------------------------------------------------------------------------------------


class EngineError(FtsError):
    """An engine cannot be built, loaded or run."""


class EngineUnavailableError(EngineError):
    """The bundle's engine cannot run on this machine, and a fallback was ruled out."""

    exit_code = 4


# --- bundles ----------------------------------------------------------------------------------------------------------


class BundleError(FtsError):
    """A bundle cannot be used."""


class BundleNotFoundError(BundleError):
    """There is no file under the path given."""


class BundleDamagedError(BundleError):
    """The archive, a size or a hash is not as the manifest says: damaged or incomplete."""


class BundleUnsafeError(BundleError):
    """The archive holds a member that a bundle never has: absolute or parent paths, links, duplicates, oversize."""


class BundleVersionError(BundleError):
    """The bundle was made for another format version; the message holds both versions."""


class BundleManifestError(BundleError):
    """The manifest is not valid under its schema."""


class BelowBudgetError(BundleError):
    """The bundle did not meet its accuracy budget and was loaded without `allow_below_budget=True`."""

    exit_code = 3


# --- running ----------------------------------------------------------------------------------------------------------


class StreamError(FtsError):
    """Something went wrong while frames were running through a net."""


class FrameError(StreamError, ValueError):
    """A frame or a raw tensor has the wrong dtype, rank, channel count or shape."""


class NoImageError(StreamError, AttributeError):
    """`out.image` of a net without an image output; an AttributeError too, so that `hasattr` and `getattr` work."""


class SourceError(StreamError):
    """A picture, folder, video or camera cannot be opened or read."""


# --- warnings ---------------------------------------------------------------------------------------------------------


class FtsWarning(UserWarning):
    """Root of all warnings; the text starts with the warning's id in square brackets."""


class FallbackWarning(FtsWarning):
    """The target's engine cannot run here and another one runs in its place; the text names both."""
