"""Features of all commands: examples, --json, --watch, and errors for mistyped options."""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import redis
from click.testing import CliRunner

from indexed import listed
from lockwork import Lockwork
from lockwork.cli.action_group import ActionGroup
from lockwork.cli.commands import _COMMANDS, cli
from lockwork.cli.help import Command
from processes import started

assert isinstance(cli, click.Group)
ROOT = click.Context(cli, info_name="lockwork")


def commands(group: click.Group, parent: click.Context) -> Iterator[tuple[str, Command, click.Context]]:
    """Return the commands, and the actions of groups, each with the context of its group."""
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if isinstance(command, ActionGroup):
            context = click.Context(command, info_name=name, parent=parent)
            yield from ((f"{name} {action}", each, within) for action, each, within in commands(command, context))
        else:
            assert isinstance(command, Command)
            yield name, command, parent


COMMANDS = {name: (command, parent) for name, command, parent in commands(cli, ROOT)}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_it_accepts(name: str) -> None:
    command, parent = COMMANDS[name]
    assert command.examples
    for line in command.examples:
        words = shlex.split(re.sub(r'"\$\((.*)\)"', r"\1", line))
        assert "lockwork" in words, line
        while "lockwork" in words:
            words = words[words.index("lockwork") + 1 :]
            first, *rest = words[: next((at for at, word in enumerate(words) if word in ("&&", ">", "|")), len(words))]
            assert first == name.split(maxsplit=1)[0]
            group = parent.command
            if isinstance(group, ActionGroup):
                context = group.make_context(first, rest, parent=ROOT)
                action, chosen, rest = group.resolve_command(context, [*context._protected_args, *context.args])
                assert chosen is not None
                chosen.make_context(action, rest, parent=context)
            else:
                command.make_context(first, rest, parent=ROOT)
    assert "Examples:" in CliRunner().invoke(cli, [*name.split(), "--help"]).output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does(name: str) -> None:
    command, _ = COMMANDS[name]
    assert [each.name for each in command.params if isinstance(each, click.Option) and not each.help] == []


def test_watch_prints_one_document_a_line_to_a_program(
    lw: Lockwork, url: str, admin: redis.Redis, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "lockwork", "locks", "--json", "--watch", "0.1"]
    with lw.lock("a"):
        listed(admin, "{lock:a}")
        with started(command, folder=tmp_path, url=url) as process:
            for _ in range(3):
                assert [each["name"] for each in json.loads(process.line())["locks"]] == ["a"]
            process.send(signal.SIGINT)
            assert (process.wait(), process.errors) == (130, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--watch=x"], "'x' is not a number of seconds"),
        (["--watch", "0"], "the pause must be 0.1 s to a day, not 0"),
        (["--watch", "a", "b"], "pass one name, or an action and a name"),
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
        ("jobs --queue mail", "No such option '--queue': omit it before the name: lockwork jobs show [QUEUE]"),
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
