from __future__ import annotations

import importlib

import pytest

from fts_converters.commands import COMMANDS, CONVERT, LATER, main_fts


def test_every_entry_of_the_table_can_be_called() -> None:
    for entry in (CONVERT, *(entry for entry, _ in COMMANDS.values())):
        module, _, function = entry.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main_fts(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name} " in said and text in said for name, (_, text) in COMMANDS.items())
    assert not [name for name in LATER if f"  {name} " in said]


def test_nothing_typed_is_wrong_usage_and_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main_fts([]) == 2
    assert "usage: fts COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(LATER))
def test_commands_of_later_versions_say_so(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_fts([name, "net.fts"]) == 2
    assert f"fts {name}: not in this version" in capsys.readouterr().err


def test_an_unknown_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main_fts(["rum"]) == 2
    assert "'rum'" in capsys.readouterr().err
