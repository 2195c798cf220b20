"""What the README tells a reader to type exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import run_ok


def typed_lines(root: Path) -> Iterator[list[str]]:
    """Words of the lines in the README's shell blocks, continued lines joined."""
    text = (root / "README.md").read_text(encoding="utf-8")
    for block in re.findall(r"```(?:sh|bash|console)\n(.*?)```", text, flags=re.S):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield words


def test_starts_with_the_two_commands(root: Path) -> None:
    assert [" ".join(words) for words in typed_lines(root)][:2] == ["make demo", "make test"]


def test_make_targets_exist(root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.M))
    typed = {words[1] for words in typed_lines(root) if words[0] == "make"}
    assert typed <= targets


def test_scripts_exist(root: Path) -> None:
    typed = [word for words in typed_lines(root) for word in words if word.endswith((".py", ".sh"))]
    assert not [path for path in typed if not (root / path).is_file()]


@pytest.mark.parametrize("command", ["fts-convert", "fts run"])
def test_flags_of_fts_commands_are_in_their_help(root: Path, base: Path, command: str) -> None:
    name, *subcommand = command.split()
    said = run_ok(base / name, *subcommand, "--help")
    flags = {
        word.partition("=")[0]
        for words in typed_lines(root)
        if " ".join(words).startswith(command)
        for word in words
        if word.startswith("-")
    }
    assert flags, f"the README shows no {command}"
    assert not [flag for flag in flags if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", said)]


def test_pictures_and_links_exist(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in t]
    assert not [target for target in targets if not (root / target).exists()]
