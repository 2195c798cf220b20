"""Fill the page: every text through autoescape, styles and script inside, and a policy that forbids all else.

The page's Content-Security-Policy lets only this script run (by its hash) and nothing be fetched, so that whatever a
model file holds in its names stays text.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fts.errors import MissingDependencyError
from fts_converters.report_html import number_text
from fts_converters.report_html.calibration import calibration_from_report
from fts_converters.report_html.content import Content
from fts_converters.report_html.latency import Latency, latency_from_profile
from fts_converters.report_html.layers import decisions, layers_from_report
from fts_converters.report_html.libraries import PIP_LINE, missing_libraries
from fts_converters.report_html.quality import quality_from_report
from fts_converters.report_html.sensitivity import Sensitivity, sensitivity_from_report
from fts_converters.report_html.story import evidence_tag, tell

if TYPE_CHECKING:
    from jinja2 import Environment

# Histograms drawn; each has about 6 kB. The rest stands in report.json, and the page says so.
HISTOGRAMS = 60
FILTERS = (
    number_text.share_text,
    number_text.bytes_text,
    number_text.budget_text,
    number_text.macs_text,
    number_text.metric_text,
    number_text.metric_name,
    number_text.signed_text,
    number_text.duration_text,
    number_text.milliseconds_text,
)


def render_report(content: Content) -> str:
    """The whole page as text.

    Raises:
        MissingDependencyError: A library of the extra `report` is missing.
    """
    if missing := missing_libraries():
        raise MissingDependencyError(f"report.html needs the `report` extra ({', '.join(missing)} missing): {PIP_LINE}")
    report = content.report
    layers = layers_from_report(report)
    sensitivity = sensitivity_from_report(report)
    latency = None if content.profile is None else latency_from_profile(content.profile)
    histograms = _most_sensitive_first(report.get("histograms") or (), sensitivity)
    script = _resource("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    page = _environment().get_template("report.html")
    return page.render(
        content=content,
        report=report,
        story=tell(content, layers, sensitivity),
        tag=evidence_tag(report),
        layers=layers,
        precisions=sorted({layer.precision for layer in layers}),
        decisions=decisions(layers),
        quality=quality_from_report(report),
        sensitivity=sensitivity,
        calibration=calibration_from_report(report),
        latency=latency,
        latency_plots=_latency_plots(latency),
        histograms=_tensor_plots(histograms[:HISTOGRAMS]),
        histograms_in_all=len(histograms),
        command=shlex.join(content.reproduce),
        style=_markup(_resource("style.css")),
        script=_markup(script),
        script_digest=digest,
    )


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("fts_converters.report_html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in FILTERS:
        environment.filters[function.__name__] = function
    return environment


def _resource(name: str) -> str:
    return files("fts_converters.report_html").joinpath("templates").joinpath(name).read_text(encoding="utf-8")


def _markup(text: str) -> Any:
    """Mark our own text as ready for the page."""
    from markupsafe import Markup

    return Markup(text)


def _latency_plots(latency: Latency | None) -> tuple[Any, ...]:
    """(wide, narrow) drawings, or none without raw samples."""
    if latency is None or latency.ages_ms.size == 0:
        return ()
    from fts_converters.report_html.plots import latency_histogram

    rows = () if latency.unstable else latency.percentiles
    return tuple(_markup(latency_histogram(latency.ages_ms, rows, width)) for width in (760, 360))


def _tensor_plots(entries: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str, Any, str], ...]:
    """(tensor, tag, drawing, what its grid leaves out)."""
    if not entries:
        return ()
    from fts_converters.report_html.plots import grid_text, tensor_histogram

    return tuple((e["tensor"], e.get("tag", "measured"), _markup(tensor_histogram(e)), grid_text(e)) for e in entries)


def _most_sensitive_first(
    entries: Sequence[Mapping[str, Any]], sensitivity: Sensitivity | None
) -> list[Mapping[str, Any]]:
    """Histograms that name a unit in the order of the sensitivity, then the others as they come."""
    rank = {} if sensitivity is None else {row.unit: place for place, row in enumerate(sensitivity.rows)}
    return sorted(entries, key=lambda e: rank.get(e.get("unit", ""), len(rank)))
