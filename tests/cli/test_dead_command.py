"""`lockwork dead`: it does exactly the requested action, or fails with an error."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from lockwork import Lockwork
from lockwork.cli.commands import cli


def dead(*words: str, url: str = "redis://127.0.0.1:1") -> Result:
    return CliRunner(env={"LOCKWORK_URL": url}).invoke(cli, ["dead", *words])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["retry", "--after", "x", "-q", "a", "--all"], "it is an option of lockwork dead list"),
        (["delete", "--one-more", "-q", "a", "--all"], "it is an option of lockwork dead retry"),
        (["--one-more"], "it is an option of lockwork dead retry"),
        (["groups", "--yes"], "it is an option of lockwork dead retry and lockwork dead delete"),
        (["list", "--all"], "it is an option of lockwork dead retry and lockwork dead delete"),
        (
            ["groups", "--limit", "5"],
            "it is an option of lockwork dead list, lockwork dead retry and lockwork dead delete",
        ),
        (
            ["delete", "--json", "-q", "a", "x"],
            "it is an option of lockwork dead list, lockwork dead groups and lockwork dead show",
        ),
        (["show", "--task", "send", "-q", "a", "x"], "No such option '--task'"),
        (["show", "-q", "a"], "Missing argument 'ID'"),
        (["shwo", "x"], "no action of dead is named 'shwo': did you mean lockwork dead show x?"),
        (["list", "x"], "Got unexpected extra argument (x)"),
        (["retry", "-q", "a", "--task", "send", "x"], "pass ids or a filter, not both"),
        (["retry", "-q", "a", "--all", "x"], "pass ids or a filter, not both"),
        (["retry", "-q", "a"], "retry needs ids, a filter, or --all"),
        (["delete", "-q", "a", "--limit", "5"], "delete needs ids, a filter, or --all"),
        (["retry", "x"], "Missing option '--queue'"),
    ],
)
def test_conflicting_options_are_refused(words: list[str], text: str) -> None:
    found = dead(*words)  # fails before the first call to a server
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
def test_mistyped_command_gets_a_suggestion(name: str, hint: str) -> None:
    found = CliRunner().invoke(cli, [name, "--json"])
    assert found.exit_code == 2
    assert f"no command is named '{name}': {hint}" in found.output


def test_bare_number_of_a_filter_is_seconds(lw: Lockwork, url: str) -> None:
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
def test_invalid_filter_is_refused_without_a_queue(action: str, option: str, value: str, text: str) -> None:
    found = dead(action, option, value)  # fails before the first call to a server
    assert text in f"{found.output}{found.exception}"
    assert found.exit_code == (2 if option.endswith("-than") else 1)
