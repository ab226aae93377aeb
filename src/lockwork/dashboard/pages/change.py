"""Change: many jobs retried, cancelled or deleted, after a preview with their number and the first jobs."""

from __future__ import annotations

from typing import Any, cast

from lockwork.dashboard.bulk import VERBS, Action, Change, Target, states_for
from lockwork.dashboard.page import Form, NotFound, Page, View
from lockwork.dashboard.pages.jobs import SEARCHED_BY, filter_of, searched_by, state_of
from lockwork.errors import ConfigError
from lockwork.jobs.search import read_filter
from lockwork.words import several

_SOON = 0.3
"""Seconds that a page waits for a short count, to show its result at once."""
_BRIEF = 1.0
"""Seconds that an action waits for its end."""
_MOST = 1000
"""Maximum selected jobs."""


async def read(view: View) -> dict[str, Any]:
    """Count the jobs, or show the progress of their change."""
    action = cast("Action", view.param("do"))
    chosen = state_of(view.param("state"))
    empty = {"change": None, "action": action, "why": "", "wrong": ""}
    back = searched_by(view)
    if action not in VERBS:
        return {**empty, "back": back}
    if not view.param("picked") and not states_for(action, chosen):
        return {**empty, "why": VERBS[action].why, "back": back}
    try:
        change = _change(view, action)
    except ConfigError as error:
        return {**empty, "wrong": str(error), "back": back}
    await change.settled(_SOON)
    matching = [(SEARCHED_BY[name], text) for name, text in back.items()]
    return {**empty, "change": change, "back": back, "matching": [] if change.by_hand else matching}


async def run(view: View, form: Form) -> str:
    """Begin the change of at most the counted number of jobs."""
    change = _asked(view)
    count = form.get("count", "")
    if not count.isdecimal() or int(count[:15]) == 0:
        raise ConfigError("There is no job to change.")
    change.run(int(count[:15]), view.user.name)
    await change.settled(_BRIEF)
    return change.said if not change.active else f"It has begun, for {several(change.count, 'job')}."


async def stop(view: View, _: Form) -> str:
    """End the change; changed jobs stay changed."""
    change = _asked(view)
    change.stop()
    await change.settled(_BRIEF)
    return f"Stopped. {change.said}"


async def undo(view: View, _: Form) -> str:
    """Run the cancelled jobs again."""
    change = _asked(view)
    if not change.undoable:
        raise ConfigError("This cannot be undone any more.")
    change.undo(view.user.name)
    await change.settled(_BRIEF)
    return change.said if not change.active else f"{several(change.to_undo, 'job')} will run again."


def _asked(view: View) -> Change:
    action = view.param("do")
    if action not in VERBS:
        raise NotFound("Nothing was to be done.")
    return _change(view, action)


def _change(view: View, action: Action) -> Change:
    """Return the change for the URL; raises ConfigError."""
    matching = filter_of(dict(view.request.query_params))
    read_filter(matching, True, {})
    picked = None
    if view.param("picked"):
        picks = [each.split(" ") for each in view.request.query_params.getlist("pick")[:_MOST]]
        if not picks or any(len(each) != 2 for each in picks):
            raise ConfigError("No job was selected.")
        picked = tuple((partition, id) for partition, id in picks)
    target = Target(view.param("queue") or None, matching, picked)
    key = (view.user.name, view.param("n"), action, target.queue, tuple(sorted(matching.items())), picked)
    return view.dashboard.changes.get(key, lambda: Change(view.lw, action, target, view.search))


PAGE = Page(
    "change", "/jobs/change", "Change jobs", read, {"run": run, "stop": stop, "undo": undo}, rail=False, within="jobs"
)
