"""Pages made from hand-made reports."""

from __future__ import annotations

import html.parser
from collections.abc import Callable
from typing import Any

import pytest

from fts_converters.report_html.content import Content
from fts_converters.report_html.render import render_report

MakePage = Callable[..., str]
VOID = {"meta", "link", "img", "input", "br"}


class Text(html.parser.HTMLParser):
    """Visible text, and every element with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        """Words joined by single spaces, whatever kind of space the page has."""
        return " ".join(" ".join(self.words).split())


def make_page(report: dict[str, Any], **more: Any) -> str:
    return render_report(Content(title=more.pop("title", "net.cpu-int8.fts"), report=report, **more))


@pytest.fixture
def page() -> MakePage:
    return make_page


@pytest.fixture
def parsed() -> Callable[..., Text]:
    return lambda report, **more: Text(make_page(report, **more))
