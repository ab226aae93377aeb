"""Wrong schedules raise one clear error where they are defined, without a call to the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lockwork import ConfigError, Lockwork


@pytest.fixture
def app() -> Iterator[Lockwork]:
    """An app whose server does not exist."""
    with Lockwork("redis://127.0.0.1:1") as made:
        yield made


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "cron= or every="),
        ({"cron": "0 9 * * *", "every": "1h"}, "one of them"),
        ({"every": "1h", "tz": "UTC"}, "tz= is the time zone of a cron line"),
        ({"cron": "0 0 30 2 *"}, "never fires"),
        ({"cron": "0 0 * *"}, "five fields"),
        ({"cron": 5}, "cron line is text"),
        ({"cron": "0 9 * * *", "tz": "Berlin"}, "no time zone is named 'Berlin'"),
        ({"every": "0.5s"}, "at least 1 s"),
        ({"every": "sometimes"}, "every must be"),
        ({"every": "1h", "misfire": "never"}, "misfire must be one of once, skip, all"),
        ({"every": "1h", "overlap": "no"}, "overlap must be one of allow, skip"),
        ({"every": "1h", "grace": "1m"}, 'grace= is for misfire="skip"'),
        ({"every": "1h", "misfire": "skip", "grace": 0}, "grace must be more than 0"),
        ({"every": "1h", "catch_up": 5}, 'catch_up= is for misfire="all"'),
        ({"every": "1h", "misfire": "all", "catch_up": 0}, "catch_up must be"),
        ({"every": "1h", "misfire": "all", "catch_up": 1001}, "catch_up must be"),
        ({"every": "1h", "misfire": "all", "catch_up": True}, "catch_up must be"),
    ],
)
def test_wrong_schedule_options_are_refused(app: Lockwork, options: dict[str, Any], complaint: str) -> None:
    @app.task
    def plain() -> None: ...

    with pytest.raises(ConfigError) as refused:
        app.schedule(plain.call(), name="s", **options)
    assert complaint in str(refused.value)
    if options:
        with pytest.raises(ConfigError) as refused:
            app.task(**options)(lambda: None)
        assert complaint in str(refused.value)
    assert not app.plans.get("default")


@pytest.mark.parametrize(("option", "hint"), [("corn", "'cron'"), ("evry", "'every'"), ("overlaps", "'overlap'")])
def test_mistyped_schedule_option_gets_a_suggestion(app: Lockwork, option: str, hint: str) -> None:
    wrong: Any = {option: "1h"}
    with pytest.raises(ConfigError, match=f"did you mean {hint}"):
        app.task(**wrong)


@pytest.mark.parametrize("name", ["", "a b", "a{b}", "x" * 151, 5, None])
def test_wrong_schedule_names_are_refused(app: Lockwork, name: Any) -> None:
    @app.task
    def plain() -> None: ...

    with pytest.raises(ConfigError, match="schedule's name"):
        app.schedule(plain.call(), name=name, every="1h")
    with pytest.raises(ConfigError, match="schedule's name"):
        app.schedule(name)


def test_schedules_with_the_same_name_are_refused(app: Lockwork) -> None:
    @app.task
    def plain(a: int = 1) -> None: ...

    app.schedule(plain.call(), name="s", every="1h")
    app.schedule(plain.call(), name="s", every="60m")  # the same schedule again
    with pytest.raises(ConfigError, match="two schedules"):
        app.schedule(plain.call(), name="s", every="2h")
    with pytest.raises(ConfigError, match="two schedules"):
        app.schedule(plain.call(2), name="s", every="1h")
    assert len(app.plans["default"]) == 1


def test_schedule_of_task_with_arguments_is_refused(app: Lockwork) -> None:
    def greet(name: str) -> None: ...

    with pytest.raises(ConfigError, match=r"needs arguments .*lw.schedule"):
        app.task(every="1h")(greet)


def test_plans_refuse_values_that_are_no_calls(app: Lockwork) -> None:
    @app.task
    def plain() -> None: ...

    wrong: Any = plain
    with pytest.raises(ConfigError, match="needs a call of a task"):
        app.schedule(wrong, name="s", every="1h")
    again: Any = app.schedule
    with pytest.raises(ConfigError, match=r"such as lw.schedule\(send.call\(42\), name='s', every=\.\.\.\)$"):
        again("s", every="1h")
    with pytest.raises(ConfigError, match="delay"):
        app.schedule(plain.options(delay="1m").call(), name="s", every="1h")


def test_scheduled_jobs_have_the_options_of_their_task(app: Lockwork) -> None:
    @app.task(every="1h", priority="high", retries=1, queue="q", name="named")
    def plain() -> None: ...

    plan = app.plans["q"]["named"]
    assert plan.record == b'0,2,,;["named",[]]'
    assert plain.name == "named"
