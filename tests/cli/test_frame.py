"""What all commands share: examples, --json, --watch, and what they say about a mistyped option."""

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
from lockwork.cli.commands import _COMMANDS, cli
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
        (["--watch=x"], "'x' is not a number of seconds"),
        (["--watch", "0"], "the pause must be 0.1 s to a day, not 0"),
        (["--watch", "a", "b"], "pass one pattern of names"),
    ],
)
def test_wrong_pause(url: str, words: list[str], said: str) -> None:
    found = CliRunner().invoke(cli, ["locks", "--url", url, *words])
    assert found.exit_code == 2
    assert said in found.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("jobs --state done", "No such option '--state': did you mean --done?"),
        ("jobs --state=dead", "No such option '--state': did you mean --dead?"),
        ("jobs mail --status runing", "No such option '--status': did you mean --running?"),
        ("jobs --state finished", "No such option '--state': there are --running, --ready, --scheduled,"),
        ("jobs --queue mail", "No such option '--queue': omit it before the name: lockwork jobs [QUEUE]"),
        ("stocks --name phone", "No such option '--name': omit it before the name: lockwork stocks [NAME]"),
        ("jobs --ded --json", "No such option"),
    ],
)
def test_mistyped_option_is_answered_by_what_was_meant(words: str, said: str) -> None:
    found = CliRunner(env={"COLUMNS": "200"}).invoke(cli, words.split())
    assert found.exit_code == 2
    assert said in found.output


def test_help_shows_each_command_once() -> None:
    text = CliRunner().invoke(cli, ["--help"]).output
    for name, said in _COMMANDS.items():
        assert len(re.findall(rf"^  {name} +{re.escape(said)}$", text, re.MULTILINE)) == 1, name
