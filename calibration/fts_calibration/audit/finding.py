"""What an audit says: an id, how bad it is, figures and file names, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
_NAMES_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found.

    Attributes:
        id: Short, of lower-case words joined by hyphens; documented in `fts_calibration.audit`.
        severity: error: the data cannot be used; warning: ranges or figures made from it mislead; note: worth knowing.
        message: What was found, with figures and names of files.
        fix: What to do, one sentence.
    """

    id: str
    severity: Severity
    message: str
    fix: str

    def to_json(self) -> dict[str, Any]:
        """The report's form."""
        return {"id": self.id, "severity": self.severity, "message": self.message, "fix": self.fix}


def names_text(names: Sequence[str]) -> str:
    """The first few names."""
    shown = ", ".join(names[:_NAMES_SHOWN])
    return f"{shown} and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else shown


def finding_if_many(
    finding_id: str, affected: Sequence[str], total: int, *, most_share: float, what: str, fix: str
) -> Iterator[Finding]:
    """A warning when more than a share of the samples is affected, a note when a few are.

    Args:
        finding_id: Of the finding.
        affected: Names of the samples.
        total: Number of samples looked at.
        most_share: Share, 0..1, up to which it is a note: any folder of real photos holds some odd ones.
        what: Follows the count, as in "3 of 16 samples are constant".
        fix: What to do.
    """
    if affected:
        severity: Severity = "warning" if len(affected) > most_share * total else "note"
        message = f"{len(affected)} of {total} samples {what} ({names_text(affected)})"
        yield Finding(id=finding_id, severity=severity, message=message, fix=fix)
