from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

from fts.commands.outcome import run_command
from fts.errors import BelowBudgetError, EngineUnavailableError, FallbackWarning, UsageError


def raising(error: BaseException):
    def body() -> int:
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError("no"), 2), (BelowBudgetError("no"), 3), (EngineUnavailableError("no"), 4)]
)
def test_an_fts_error_is_one_line_and_its_exit_code(capsys, error, code):
    assert run_command("fts run", raising(error)) == code
    assert capsys.readouterr().err == "fts run: error: no\n"


def test_an_interrupt_is_130(capsys):
    assert run_command("fts run", raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "fts run: interrupted\n"


def test_a_defect_is_1_with_the_traceback_and_a_request(capsys):
    assert run_command("fts run", raising(ZeroDivisionError("x"))) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "defect of fts" in err
    assert "report" in err


def test_a_result_passes_through(capsys):
    assert run_command("fts run", lambda: 2) == 2
    assert capsys.readouterr() == ("", "")


def test_warnings_of_fts_are_one_line_each_however_warnings_are_filtered(capsys):
    def body() -> int:
        for _ in range(2):
            warnings.warn("[fallback] x", FallbackWarning, stacklevel=1)
        return 0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = warnings.showwarning
        assert run_command("fts run", body) == 0
        assert warnings.showwarning is before
    assert capsys.readouterr().err == "fts run: warning: [fallback] x\n" * 2


def test_a_termination_unwinds_the_stack_and_ends_with_143(tmp_path):
    code = f"""
import os, signal, tempfile
from fts.commands.outcome import run_command
def body():
    with tempfile.TemporaryDirectory(dir={str(tmp_path)!r}):
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
raise SystemExit(run_command("fts run", body))
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=30)
    assert done.returncode == 143
    assert list(tmp_path.iterdir()) == []
