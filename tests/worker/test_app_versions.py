"""Apps are announced by version, whole and in bounded records."""

from __future__ import annotations

import msgspec
import pytest

from clients import client_of
from lockwork import ConfigError, Lockwork
from lockwork.app.announcement import announce
from lockwork.protocol.announcements import announcements
from lockwork.protocol.announcements.announcements import APPS
from lockwork.workers import newest
from server_steps import stepping


def test_versions_of_app_are_announced_side_by_side(own_url: str) -> None:
    for version in ("1", "2"):
        with Lockwork(own_url, app_name="shop", app_version=version) as lw:
            lw.task(name="send", aliases=["old"])(lambda: None)
            lw.runtime.run(announce(lw, "shop"))
    with Lockwork(own_url) as lw:
        assert {app.app_version for app in lw.apps()} == {"1", "2"}
        (app,) = newest(lw.apps())
        assert (app.name, app.app_version) == ("shop", "2")
        assert app.task("old") == app.task("send") == app.tasks[0]


def test_other_tasks_are_another_version_of_app(own_url: str) -> None:
    for parameters in (lambda user: None, lambda user, order: None, lambda user: None):
        with Lockwork(own_url, app_name="shop") as lw:
            lw.task(name="send")(parameters)
            lw.runtime.run(announce(lw, "shop"))
    with Lockwork(own_url) as lw:
        assert len({app.code for app in lw.apps()}) == len(lw.apps()) == 2
        assert newest(lw.apps())[0].tasks[0].parameters == ["user"]


def test_replaced_version_is_forgotten_a_day_after_its_last_announcement(own_url: str) -> None:
    with client_of(own_url) as admin, stepping(admin) as clock:
        for version, later in (("1", 80_000.0), ("2", 7000.0), ("3", 0.0)):
            with Lockwork(own_url, app_name="shop", app_version=version) as lw:
                lw.task(name="send")(lambda: None)
                lw.runtime.run(announce(lw, "shop"))
            clock.step(later)
        with Lockwork(own_url) as lw:
            assert {app.app_version for app in lw.apps()} == {"2", "3"}


def test_app_with_many_tasks_is_announced_whole_in_bounded_records(own_url: str) -> None:
    with Lockwork(own_url, app_name="shop") as lw:
        for number in range(1234):
            lw.task(name=f"t{number}")(lambda: None)
        lw.runtime.run(announce(lw, "shop"))
        (app,) = lw.apps()
        assert len(app.tasks) == 1234
        assert app.task("t1233") is not None
        found = lw.runtime.run(announcements.read("lw", APPS))
        assert [len(msgspec.msgpack.decode(each.record)["tasks"]) for each in found] == [500, 500, 234]


@pytest.mark.parametrize("name", ["old", "send"])
def test_alias_belongs_to_one_task(own_url: str, name: str) -> None:
    with Lockwork(own_url) as lw:
        lw.task(name="send", aliases=["old"])(lambda: None)
        with pytest.raises(ConfigError, match=f"the alias '{name}' is already used by task 'send'"):
            lw.task(name="other", aliases=[name])(lambda: None)
        with pytest.raises(ConfigError, match="its name is an alias of task 'send'"):
            lw.task(name="old")(lambda: None)
        with pytest.raises(ConfigError, match="aliases must be a list of former names"):
            lw.task(name="fine", aliases="old")(lambda: None)
