"""`lockwork dead`: what is asked for is done, or is an error; nothing is passed over in silence."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from lockwork import Lockwork
from lockwork.cli.commands import cli


def dead(*words: str, url: str = "redis://127.0.0.1:1") -> Result:
    return CliRunner().invoke(cli, ["dead", "--url", url, *words])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--after", "x", "-q", "a", "retry", "--all"], "--after is an option of list, not of retry"),
        (["--one-more", "-q", "a", "--all", "delete"], "--one-more is an option of retry, not of delete"),
        (["--one-more"], "--one-more is an option of retry, not of list"),
        (["--yes", "groups"], "--yes is an option of retry or delete, not of groups"),
        (["--all", "list"], "--all is an option of retry or delete, not of list"),
        (["--limit", "5", "groups"], "--limit is an option of list or retry or delete, not of groups"),
        (["--json", "-q", "a", "delete", "x"], "--json is an option of list or groups or show, not of delete"),
        (["--task", "send", "-q", "a", "show", "x"], "show takes one id, not a filter"),
        (["-q", "a", "show"], "show takes one id"),
        (["shwo", "x"], "'shwo' is none of list, groups, show, retry, delete"),
        (["list", "x"], "list takes a filter, not ids"),
        (["-q", "a", "--task", "send", "retry", "x"], "pass ids or a filter, not both"),
        (["-q", "a", "--all", "retry", "x"], "pass ids or a filter, not both"),
        (["-q", "a", "retry"], "retry needs ids, a filter, or --all"),
        (["-q", "a", "--limit", "5", "delete"], "delete needs ids, a filter, or --all"),
        (["retry", "x"], "retry needs a --queue"),
    ],
)
def test_conflicting_options_are_refused(words: list[str], text: str) -> None:
    found = dead(*words)  # no server is asked
    assert found.exit_code == 2
    assert text in found.output


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("wrker", "did you mean worker?"),
        ("queues", "did you mean queue?"),
        ("zzz", "there are acl, completion, dashboard"),
    ],
)
def test_a_mistyped_command_gets_a_suggestion(name: str, hint: str) -> None:
    found = CliRunner().invoke(cli, [name, "--json"])
    assert found.exit_code == 2
    assert f"no command is named '{name}': {hint}" in found.output


def test_a_bare_number_is_seconds_as_in_every_command(lw: Lockwork, url: str) -> None:
    assert lw.queue().status().dead == 0
    assert json.loads(dead("--older-than", "0.5", "--newer-than", "60", "--json", url=url).output) == {"queues": {}}


@pytest.mark.parametrize("action", ["list", "groups"])
@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--older-than", "foo", '--older-than must be a number of seconds or a time such as "10m"'),
        ("--newer-than", "1e400", "--newer-than must be between 0 and 366 days"),
        ("--task", "a b", "a task's name must be"),
    ],
)
def test_a_filter_is_checked_although_no_queue_is_there(action: str, option: str, value: str, text: str) -> None:
    found = dead(action, option, value)  # no server is asked
    assert text in f"{found.output}{found.exception}"
    assert found.exit_code == (2 if option.endswith("-than") else 1)
