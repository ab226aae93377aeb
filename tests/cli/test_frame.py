"""What all commands share: examples, --json, --watch, completion."""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from lockwork import Lockwork
from lockwork.cli.commands import cli
from lockwork.cli.help import Command
from processes import started

assert isinstance(cli, click.Group)
COMMANDS = {name: cli.get_command(click.Context(cli), name) for name in cli.list_commands(click.Context(cli))}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_it_accepts(name: str) -> None:
    command = COMMANDS[name]
    assert isinstance(command, Command)
    assert command.examples
    for line in command.examples:
        words = shlex.split(re.sub(r'"\$\((.*)\)"', r"\1", line))
        assert "lockwork" in words, line
        while "lockwork" in words:
            words = words[words.index("lockwork") + 1 :]
            assert words[0] == name
            end = next((at for at, word in enumerate(words) if word in ("&&", ">", "|")), len(words))
            command.make_context(name, words[1:end])
    assert "Examples:" in CliRunner().invoke(cli, [name, "--help"]).output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does(name: str) -> None:
    command = COMMANDS[name]
    assert command is not None
    assert [each.name for each in command.params if isinstance(each, click.Option) and not each.help] == []


def test_watch_prints_one_document_a_line_to_a_program(lw: Lockwork, url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lockwork", "locks", "--json", "--watch", "0.1"]
    with lw.lock("a"), started(command, folder=tmp_path, url=url) as process:
        for _ in range(3):
            assert [each["name"] for each in json.loads(process.line())["locks"]] == ["a"]
        process.send(signal.SIGINT)
        assert (process.wait(), process.errors) == (130, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--watch=x"], "'x' is no number of seconds"),
        (["--watch", "0"], "the pause must be 0.1 s to a day, not 0"),
        (["--watch", "a", "b"], "give one pattern of names"),
    ],
)
def test_wrong_pause(url: str, words: list[str], said: str) -> None:
    found = CliRunner().invoke(cli, ["locks", "--url", url, *words])
    assert found.exit_code == 2
    assert said in found.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(shell: str) -> None:
    found = CliRunner().invoke(cli, ["completion", shell])
    assert found.exit_code == 0
    assert "_LOCKWORK_COMPLETE" in found.output


def completed(words: str, tmp_path: Path, url: str | None = None) -> list[str]:
    """What bash offers for the last word of this line."""
    line = ["env", f"COMP_WORDS={words}", f"COMP_CWORD={len(words.split(' ')) - 1}", "_LOCKWORK_COMPLETE=bash_complete"]
    with started([*line, sys.executable, "-c", ENTRY], folder=tmp_path, url=url) as process:
        assert process.process.stdout is not None
        text = process.process.stdout.read().decode()
        assert process.wait() == 0, process.errors
    return [item.partition(",")[2] for item in text.split("\n") if item]


ENTRY = "import sys; sys.argv[0] = 'lockwork'; from lockwork.cli import main; main()"


def test_commands_and_names_of_queues_are_completed(lw: Lockwork, url: str, tmp_path: Path) -> None:
    lw.task(name="send", queue="mail")(print).enqueue()
    assert completed("lockwork qu", tmp_path) == ["queue"]
    assert completed("lockwork dead --qu", tmp_path) == ["--queue"]
    assert completed("lockwork queue pause m", tmp_path, url) == ["mail"]
    assert completed(f"lockwork dead --url {url} -q m", tmp_path) == ["mail"]
    assert completed("lockwork queue pause x", tmp_path, url) == []
    assert completed("lockwork queue pause m", tmp_path, "redis://127.0.0.1:1") == []


def test_the_embedded_server_is_not_started_to_complete_a_name(tmp_path: Path) -> None:
    assert completed("lockwork queue pause m", tmp_path) == []
