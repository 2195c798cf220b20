"""Static SVG by matplotlib that takes its colours and font from the page, so that light, dark and print all work.

matplotlib writes the colours given here; they are then replaced by the page's custom properties.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fts_converters.report_html.latency import PercentileRow
from fts_converters.report_html.number_text import clipped_text, signed_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that stand for custom properties of templates/style.css; no two alike.
_PLACEHOLDERS: Mapping[str, str] = {
    "#010101": "var(--ink)",
    "#020202": "var(--muted)",
    "#030303": "var(--line)",
    "#040404": "var(--integer)",
    "#050505": "var(--float)",
    "#060606": "var(--accent)",
}
INK, MUTED, LINE, INTEGER, FLOAT, ACCENT = _PLACEHOLDERS
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fts",
    "text.color": MUTED,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "path.simplify": True,
}
MOST_BINS = 60
# Frames beyond this multiple of the largest percentile shown are gathered at the right edge.
TAIL = 1.25


def latency_histogram(ages_ms: npt.NDArray[np.float64], rows: Sequence[PercentileRow], width_px: int) -> str:
    """Histogram of ages with percentiles as lines and their 95 % intervals as bands.

    Args:
        ages_ms: Finished frames, float64 (n,).
        rows: Percentiles; those without a value are left out.
        width_px: Width it will be shown at: text keeps its size on a phone.
    """
    known = [(r, r.value_ms) for r in rows if r.value_ms is not None]
    shown = [v for row, value in known for v in (value, row.high_ms) if v is not None]
    left = float(ages_ms.min())
    right = min(float(ages_ms.max()), max(shown, default=float(ages_ms.max())) * TAIL)
    right = right if right > left else left + max(abs(left) * 0.01, 1e-3)
    beyond = int(np.count_nonzero(ages_ms > right))
    bins = max(8, min(MOST_BINS, round(3 * ages_ms.size**0.5)))

    def draw(axes: Axes) -> None:
        counts, edges = np.histogram(np.minimum(ages_ms, right), bins=bins, range=(left, right))
        axes.stairs(counts, edges, fill=True, color=INTEGER, alpha=0.75)
        top = float(counts.max())
        for place, (row, value) in enumerate(known):
            height = top * (1.12 + 0.14 * (len(known) - 1 - place))
            low = row.low_ms if row.low_ms is not None else left
            high = row.high_ms if row.high_ms is not None else right
            axes.axvspan(low, high, ymax=0.999, color=ACCENT, alpha=0.14, linewidth=0)
            axes.plot([value] * 2, [0, height], color=ACCENT, linewidth=1.2)
            late = value > left + 0.8 * (right - left)
            axes.text(
                value + (-0.008 if late else 0.008) * (right - left),
                height,
                f"{row.name} {row.value_text}",
                color=INK,
                ha="right" if late else "left",
                va="center",
            )
        axes.set_xlim(left, right)
        axes.set_ylim(0, top * 1.55)
        axes.set_xlabel("age in ms" + (f"; {beyond} slower frames gathered at the right edge" if beyond else ""))
        axes.set_ylabel("frames")
        axes.locator_params(axis="y", nbins=5, integer=True)

    text = ", ".join(f"{r.name} {r.value_text} (95 % interval {r.interval_text})" for r, _ in known)
    is_wide = width_px > 500
    box = (0.07, 0.2, 0.91, 0.78) if is_wide else (0.15, 0.2, 0.83, 0.78)
    description = f"Histogram of {ages_ms.size} frame ages. {text}"
    return _svg((width_px, 230), box, draw, description, font_px=10 if is_wide else 11)


def tensor_histogram(entry: Mapping[str, Any]) -> str:
    """Histogram of one tensor's values; bounds of quantization as lines where the entry holds `clip`."""
    counts = np.asarray(entry["counts"], np.float64)
    low, high = float(entry["low"]), float(entry["high"])
    high = high if high > low else low + 1e-6
    clip = tuple(float(bound) for bound in entry.get("clip") or ())

    def draw(axes: Axes) -> None:
        # Square roots, because activations have a peak at zero that would flatten everything else.
        axes.stairs(np.sqrt(counts), np.linspace(low, high, counts.size + 1), fill=True, color=INTEGER, alpha=0.8)
        left, right = min((low, *clip)), max((high, *clip))
        for bound, end in zip(clip, (left, right), strict=False):
            axes.axvline(bound, color=FLOAT, linewidth=1.2)
            if bound != end:  # values out there are put on the bound
                axes.axvspan(bound, end, color=FLOAT, alpha=0.14, linewidth=0)
        axes.set_xlim(left, right)
        axes.set_ylim(0, None)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", nbins=4)

    bounds = f"; quantized from {clip[0]:.4g} to {clip[1]:.4g}" if clip else ""
    description = f"Histogram of {entry['tensor']}, {low:.4g} to {high:.4g}{bounds}"
    return _svg((270, 96), (0.04, 0.3, 0.92, 0.66), draw, description, font_px=10.5)


def grid_text(entry: Mapping[str, Any]) -> str:
    """What the grid holds and leaves out, one line; "" where the report does not say."""
    if entry.get("grid") == "channel":
        return "a grid for each channel"
    clip = entry.get("clip")
    if not clip:
        return ""
    held = f"holds {signed_text(clip[0])} to {signed_text(clip[1])}"
    if "clipped" not in entry:
        return held
    return f"{held}; {clipped_text(entry['clipped'])}"


def _svg(
    size_px: tuple[int, int],
    box: tuple[float, float, float, float],
    draw: Callable[[Axes], None],
    description: str,
    *,
    font_px: float,
) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**_STYLE, "font.size": font_px}):
        figure: Figure = Figure(figsize=(size_px[0] / 72, size_px[1] / 72))  # SVG units of matplotlib are 1/72 inch
        axes = figure.add_axes(box)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=3)
        draw(axes)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _for_the_page(buffer.getvalue(), description)


def _for_the_page(svg: str, description: str) -> str:
    """Keep the drawing: no prologue, no metadata, no ids but those referred to, colours and font of the page."""
    from markupsafe import escape

    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.S)
    body = re.sub(r"<style.*?</style>", "", body, flags=re.S)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.S)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', body))
    body = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", body)
    body = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", body)
    body = re.sub(r"\s*\n\s*", " ", body)
    for placeholder, name in _PLACEHOLDERS.items():
        body = body.replace(placeholder, name)
    viewbox = re.search(r'viewBox="[^"]*"', body)
    assert viewbox is not None, "matplotlib wrote an SVG without viewBox"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {viewbox[0]} role="img"'
    return f'{head} aria-label="{escape(description)}">{body[body.index(">") + 1 :]}'
