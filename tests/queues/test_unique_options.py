"""Wrong options of unique jobs, and calls that cannot be unique."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Any

import pytest

from lockwork import ConfigError, Lockwork


def report(app: Lockwork, **options: Any) -> Any:
    """Register a task with these options and a default unique name."""

    def report(user: int) -> None: ...

    registered: Any = app.task(**{"unique": "report:{user}", **options})
    return registered(report)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"unique": "report:{usr}"}, "did you mean {user}"),
        ({"unique": 7}, "a job's unique name must be text, not 7"),
        ({"unique_until": "5x"}, "unique_until is 'start', 'done' or a time such as '10m', not '5x'"),
        ({"on_duplicate": "drop"}, "on_duplicate must be one of keep, replace, not 'drop'"),
        ({"on_duplicate": "debounce"}, "set debounce='2s' instead"),
        ({"on_duplicate": "keep", "debounce": "2s"}, "always becomes the last call"),
        ({"debounce_max": "2s"}, "it needs debounce=..."),
        ({"debounce": "2s", "debounce_max": "1s"}, "must not be less than debounce"),
        ({"debounce": "2s", "unique_until": "1h"}, "not a time"),
        ({"unique_untl": "start"}, "did you mean 'unique_until'"),
    ],
)
def test_wrong_unique_options_are_refused(lw: Lockwork, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text.replace("(", "\\(").replace("{", "\\{")):
        report(lw, **options)


def test_unique_options_without_a_name_are_refused(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="unique_until is an option of unique jobs"):
        report(lw, unique=None, unique_until="start").enqueue(1)

    @lw.task
    def plain(user: int) -> None: ...

    with pytest.raises(ConfigError, match="on_duplicate is an option of unique jobs"):
        plain.options(on_duplicate="replace")
    assert plain.options(unique="{user}").enqueue(1).new
    assert not plain.options(unique="{user}").enqueue(1).new


def test_calls_that_cannot_be_unique_are_refused(lw: Lockwork) -> None:
    task = report(lw)
    with pytest.raises(ConfigError, match="cannot be unique: call task.options"):
        task.call(1)
    assert task.options(unique=None).call(1).queue == "default"
    with pytest.raises(ConfigError, match="cannot be unique"):
        lw.task(every="1h", unique=True, name="hourly")(lambda: None)
    with pytest.raises(ConfigError, match="cannot have delay"):
        task.options(debounce="2s", delay="1s")
    with pytest.raises(ConfigError, match="cannot be sent as JSON"):
        lw.task(unique=True, name="things")(lambda thing: None).enqueue(object())


def test_errors_of_argument_methods_are_raised(lw: Lockwork) -> None:
    class Nowhere(tzinfo):
        def utcoffset(self, when: datetime | None) -> None:
            raise LookupError("which zone?")

        def dst(self, when: datetime | None) -> None: ...

        def tzname(self, when: datetime | None) -> None: ...

    with pytest.raises(ConfigError, match=r"the arguments of task 'report' cannot be sent as JSON: .*which zone\?"):
        report(lw, unique=True).enqueue(datetime(2026, 11, 21, tzinfo=Nowhere()))
