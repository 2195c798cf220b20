"""report.html in a browser: a real conversion and a net of 300 layers, on a phone and on a desktop.

The system's Chromium is driven through playwright, which downloads nothing. Floors: no console message above "info", no
request but for the page itself, no sideways scrolling, and every control does what it says.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import onnx.parser
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from fts_converters.commands import main_convert
from fts_converters.report_html.content import Content
from fts_converters.report_html.pictures import picture_set
from fts_converters.report_html.render import render_report

from ..fts.bundle.test_schema import problems, schema
from ..fts_converters.report_html import samples

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

WIDTHS = {"phone": (390, 844), "desktop": (1440, 900)}
TINY = """
<ir_version: 9, opset_import: ["" : 17]>
tiny (float[1, 3, 32, 32] image) => (float[1, 3, 32, 32] y)
<float[8, 3, 3, 3] w1, float[3, 8, 3, 3] w2> {
    a = Conv <pads = [1, 1, 1, 1]> (image, w1)
    b = Relu (a)
    c = Conv <pads = [1, 1, 1, 1]> (b, w2)
    y = Sigmoid (c)
}
"""


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """report.html of a conversion."""
    folder = tmp_path_factory.mktemp("converted")
    draw = np.random.default_rng(1)
    model = onnx.parser.parse_model(TINY)
    model.graph.ClearField("initializer")
    for name, shape in (("w1", (8, 3, 3, 3)), ("w2", (3, 8, 3, 3))):
        weights = draw.normal(0, 0.4, shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    onnx.save(model, folder / "tiny.onnx")
    (folder / "my-pictures").mkdir()
    for number in range(8):
        photo = cv2.resize(draw.integers(0, 256, (8, 8, 3), np.uint8), (32, 32), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(str(folder / "my-pictures" / f"{number}.png"), photo)
    arguments = [str(folder / "tiny.onnx"), "--target", "cpu-int8", "--calib", str(folder / "my-pictures"), "--quiet"]
    assert main_convert([*arguments, "--no-cache", "-o", str(folder / "tiny.fts")]) == 0
    assert b"my-pictures" not in (folder / "tiny.fts").read_bytes()
    return folder / "tiny.report" / "report.html"


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with every section and hostile names."""
    report = samples.large_report(300, histograms_of=2)
    report["nodes"][0]["name"] = "<script>document.title = 'taken over'</script>"
    report["nodes"][1]["reason"] = "<img src=x onerror=\"document.title = 'taken over'\">"
    pictures = picture_set([(f"Sample {i}", [samples.png(64, 3 * i + k) for k in range(3)]) for i in range(2)])
    page = render_report(
        Content(
            title="deep.fts",
            report=report,
            pictures=pictures,
            profile=samples.profile(100),
            reproduce=("fts-convert", "deep.onnx"),
        )
    )
    path = tmp_path_factory.mktemp("deep") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(params=WIDTHS)
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """A page that fails the test at its end for messages on the console and for requests."""
    width, height = WIDTHS[request.param]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="light", reduced_motion="reduce"
    )
    opened = context.new_page()
    messages: list[str] = []
    requests: list[str] = []
    opened.on("console", lambda m: messages.append(f"{m.type}: {m.text}"))
    opened.on("pageerror", lambda error: messages.append(f"error: {error}"))
    opened.on("request", lambda r: requests.append(r.url))
    yield opened
    context.close()
    assert messages == []
    assert [url for url in requests if not url.startswith(("data:", "file:"))] == []
    assert len([url for url in requests if url.startswith("file:")]) == 1


def opened(page: Page, path: Path) -> Page:
    page.goto(path.as_uri())
    return page


def names(page: Page) -> list[str]:
    """Names of the layers in sight, from the top."""
    return page.locator("#layers tbody tr:visible td.name").all_inner_texts()


def is_phone(page: Page) -> bool:
    return page.locator("#layers select[name=sort]").is_visible()


def sort_by(page: Page, key: str, times: int = 1) -> None:
    """Sort as one can at this width: by a heading, or by the list that phones have."""
    if is_phone(page):
        page.locator("#layers select[name=sort]").select_option(f"{key} {-1 if times == 2 else 1}")
    else:
        for _ in range(times):
            page.locator(f"#layers th[data-key={key}] button").click()


def test_a_conversion_writes_a_page_that_opens_without_error_or_request(page, converted):
    opened(page, converted)
    assert page.locator("h1").inner_text() == "tiny.fts"
    assert page.locator(".pill").inner_text() == "Budget met"
    assert "fts-convert" in page.locator("#reproduce pre").inner_text()
    assert "--no-cache" in page.locator("#reproduce pre").inner_text()
    assert page.locator("[data-sample] img").count() == 6
    assert page.locator(".stage img").first.evaluate("image => image.naturalWidth") == 32
    assert page.locator("#calibration tbody tr").filter(has=page.get_by_text("calibrate", exact=True)).count() == 4
    rules = schema("report.schema.json")
    written = json.loads(converted.with_name("report.json").read_text(encoding="utf-8"))
    assert list(problems(written, rules, rules)) == []
    assert len(written["calibration"]["ranges"]) >= 3


def test_show_all_shows_every_layer_and_nothing_is_wider_than_the_window(page, deep):
    opened(page, deep)
    assert len(names(page)) < 300
    page.locator("#layers .more").click()
    assert len(names(page)) == 300
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def test_layers_sort_both_ways_by_name_by_number_and_by_share(page, deep):
    opened(page, deep)
    in_order = names(page)
    sort_by(page, "name", times=2)
    backwards = names(page)
    assert (
        backwards
        == sorted(backwards, key=lambda n: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", n)])[::-1]
    )
    assert backwards != in_order
    sort_by(page, "number")
    assert names(page) == in_order
    sort_by(page, "macs", times=2 if is_phone(page) else 1)
    macs = page.locator("#layers tbody tr").evaluate_all("rows => rows.map(r => Number(r.dataset.macs))")
    assert macs == sorted(macs, reverse=True)
    assert page.locator("#layers th[data-key=macs]").get_attribute("aria-sort") == "descending"


def test_layers_filter_by_text_and_by_precision(page, deep):
    opened(page, deep)
    first = len(names(page))
    assert page.locator("#layers .count").inner_text() == f"{first} of 300 shown"
    page.locator("#layers input[type=search]").fill("STAGE_7/")
    assert page.locator("#layers .count").inner_text() == f"{first if first < 20 else 20} of 300 shown, 20 match"
    page.locator("#layers select[name=precision]").select_option("fp32")
    shown = page.locator("#layers tbody tr:visible")
    assert 0 < shown.count() < 20
    assert set(shown.evaluate_all("rows => rows.map(r => r.dataset.precision)")) == {"fp32"}
    page.locator("#layers input[type=search]").fill("no such layer")
    assert page.locator("#layers .count").inner_text() == "0 of 300 shown, 0 match"


def test_the_divider_moves_by_keyboard_and_by_pointer(page, deep):
    opened(page, deep)
    stage, divider = page.locator(".stage"), page.locator(".stage input")
    at = "stage => stage.style.getPropertyValue('--at')"
    divider.focus()
    page.keyboard.press("Home")
    assert stage.evaluate(at) == "0%"
    page.keyboard.press("ArrowRight")
    assert stage.evaluate(at) == "0.5%"
    divider.click(position={"x": stage.bounding_box()["width"] * 0.75, "y": 20})
    assert abs(float(stage.evaluate(at).rstrip("%")) - 75) < 4
    assert "FP32" in divider.get_attribute("aria-valuetext")


def test_the_pictures_compared_follow_the_choices(page, deep):
    opened(page, deep)
    under = page.locator(".stage img").first

    def source(sample: int, role: str) -> str:
        return page.locator(f'[data-sample="{sample}"] [data-role={role}]').get_attribute("src")

    assert under.get_attribute("src") == source(0, "fp32")
    page.get_by_label("Input and FP32").check()
    assert under.get_attribute("src") == source(0, "input")
    page.get_by_label("Sample 1").check(force=True)
    assert under.get_attribute("src") == source(1, "input")
    page.get_by_label("Difference").check()
    assert under.get_attribute("src") == source(1, "fp32")
    assert "difference" in page.locator(".stage").get_attribute("class")


def test_the_theme_follows_the_system_and_the_button(page, deep):
    opened(page, deep)
    color = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(color)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(color)
    assert dark != light
    page.locator(".theme").click()
    assert page.evaluate(color) == light
    page.locator(".theme").click()
    assert page.evaluate(color) == dark


def test_text_has_enough_contrast_in_both_themes(browser, deep):
    """WCAG 2.1, 1.4.3: 4.5 to 1 for text, of the colours that text is set in on the grounds that it stands on."""
    page = opened(browser.new_page(), deep)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        style = "name => getComputedStyle(document.documentElement).getPropertyValue('--' + name)"
        grounds = {"ink": "wash", "muted": "wash", "accent": "paper", "bad": "bad-wash", "good": "good-wash",
                   "integer": "integer-wash", "float": "float-wash"}  # fmt: skip
        for text, ground in grounds.items():
            ratio = contrast(page.evaluate(style, text), page.evaluate(style, ground))
            assert ratio >= 4.5, f"{scheme}: {text} on {ground}: {ratio:.2f}"
    page.close()


def contrast(*colors: str) -> float:
    """Ratio of relative luminances, 1..21 (WCAG 2.1)."""

    def luminance(color: str) -> float:
        digits = color.strip().lstrip("#")
        channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted(luminance(c) for c in colors)
    return (light + 0.05) / (dark + 0.05)


def test_names_from_the_model_do_not_act(page, deep):
    opened(page, deep)
    assert page.title() == "deep.fts · fts report"
    assert names(page)[0] == "<script>document.title = 'taken over'</script>"


def test_prints_every_layer_and_the_pictures_side_by_side(page, deep):
    opened(page, deep)
    page.emulate_media(media="print")
    assert len(names(page)) == 300
    assert page.locator(".triple img:visible").count() == 6
    assert not page.locator(".bar").is_visible()
    assert not page.locator(".compare").is_visible()


def test_without_script_everything_is_there_to_read(browser, deep):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(deep.as_uri())
    assert len(names(page)) == 300
    assert page.locator(".triple img:visible").count() == 6
    assert not page.locator(".tools:visible").count()
    context.close()
