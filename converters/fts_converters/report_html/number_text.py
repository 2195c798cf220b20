"""Numbers as people read them; the page shows "–" for what is not known and "∞" for equal outputs."""

from __future__ import annotations

UNKNOWN = "–"
_THIN = "\N{NARROW NO-BREAK SPACE}"
_DECIBEL = ("psnr", "sqnr")
# Metrics that are neither an abbreviation in capitals nor written as they are typed.
_NAMES = {"iou": "IoU", "top1": "top-1 agreement", "age": "age error", "drop": "drop"}


def share_text(share: float | None) -> str:
    """0.5046 as "50.5 %"; what is there but rounds to nothing is "< 0.1 %"."""
    if share is None:
        return UNKNOWN
    if 0 < share < 0.0005:
        return f"<{_THIN}0.1{_THIN}%"
    return f"{share * 100:.1f}{_THIN}%"


def bytes_text(count: int | None) -> str:
    """Decimal units, three digits: 1441792 as "1.44 MB"."""
    if count is None:
        return UNKNOWN
    return f"{_scaled(count, ('', 'k', 'M', 'G', 'T'))}B"


def macs_text(count: int) -> str:
    """509607936 as "510 M"; none as "–"."""
    return _scaled(count, ("", "k", "M", "G", "T")).rstrip(_THIN) if count else UNKNOWN


def _scaled(count: float, prefixes: tuple[str, ...]) -> str:
    value, index = float(count), 0
    while value >= 999.5 and index < len(prefixes) - 1:
        value, index = value / 1000, index + 1
    digits = 0 if value >= 99.95 or index == 0 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}{_THIN}{prefixes[index]}"


def metric_text(metric: str, value: float | None) -> str:
    """A metric's value with its unit; None is how JSON holds infinity."""
    base = metric.partition(".")[0].casefold()
    if value is None:
        return "∞"
    if base in _DECIBEL:
        return f"{value:.2f}{_THIN}dB"
    if base == "drop":
        return f"{value * 100:.2f}{_THIN}%"
    if base == "age":
        return f"{value:.3f}{_THIN}years"
    return f"{value:.4f}" if abs(value) >= 0.1 or not value else f"{value:.4g}"


def metric_name(metric: str) -> str:
    """`psnr.mean` as "PSNR mean"; short names are abbreviations, longer ones are words."""
    base, _, kind = metric.partition(".")
    shown = _NAMES.get(base, base.upper() if len(base) <= 4 else base)
    return f"{shown} {kind}".strip()


def budget_text(text: str) -> str:
    """`psnr>=40` as "psnr ≥ 40"; commands keep the form that can be typed."""
    return text.replace(">=", f"{_THIN}≥{_THIN}").replace("<=", f"{_THIN}≤{_THIN}")


def clipped_text(share: float) -> str:
    """0.00012 as "0.012 % clipped"; nothing as "none clipped"."""
    return f"{share * 100:.2g}{_THIN}% clipped" if share else "none clipped"


def signed_text(value: float) -> str:
    """A tensor's value with four significant digits and a true minus."""
    return f"{value + 0.0:.4g}".replace("-", "−")  # adding 0 makes −0 to 0


def duration_text(seconds: float) -> str:
    """Seconds as "0.4 s", "12 s", "3 min 20 s"."""
    if seconds < 10:
        return f"{seconds:.1f}{_THIN}s"
    if seconds < 120:
        return f"{seconds:.0f}{_THIN}s"
    return f"{seconds // 60:.0f}{_THIN}min {seconds % 60:.0f}{_THIN}s"


def milliseconds_text(value_ms: float | None) -> str:
    """Milliseconds with three digits; None is "n too small"."""
    if value_ms is None:
        return "n too small"
    if value_ms == float("inf"):
        return "never came"
    digits = 3 if value_ms < 1 else 2 if value_ms < 100 else 1
    return f"{value_ms:.{digits}f}{_THIN}ms"
