"""House rule: a test may be skipped only for a reason that `skipped.json` lists, as often as it says for this install.

The rule is applied to complete runs; a run of chosen files or with -k skips what it likes.
"""

from __future__ import annotations

import importlib.util
import json
import signal
from collections import Counter
from pathlib import Path

import pytest

LISTED = Path(__file__).with_name("skipped.json")
_skipped: Counter[str] = Counter()


def pytest_configure(config: pytest.Config) -> None:
    """A runner started in the background ignores SIGINT, and would hand that on to the processes that tests interrupt."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        _skipped[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


def _unlisted(config: pytest.Config) -> str:
    complete = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.keyword
    if not complete or config.option.markexpr == "slow":
        return ""
    install = "torch" if importlib.util.find_spec("torch") else "convert"
    lists = json.loads(LISTED.read_text(encoding="utf-8"))
    listed = lists[install]
    found = {reason: n for reason, n in _skipped.items() if reason not in lists["any number, by machine"]}
    if found == listed:
        return ""
    return f"skipped tests by reason are {found}, but {LISTED.name} lists {listed} for the {install} install"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.OK and _unlisted(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if problem := _unlisted(config):
        terminalreporter.write_line(f"ERROR: {problem}", red=True)
