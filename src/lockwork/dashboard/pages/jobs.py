"""Jobs: all of them by state, queue, task, tag, key, argument, error and age."""

from __future__ import annotations

import re
from dataclasses import replace
from time import perf_counter
from typing import Any, cast

from lockwork.dashboard.bulk import VERBS, states_for
from lockwork.dashboard.page import Form, Page, View
from lockwork.dashboard.reading import read_queues
from lockwork.durations import seconds
from lockwork.errors import ConfigError
from lockwork.jobs.search import JobFilter, JobPage, JobRow
from lockwork.jobs.snapshot import JobSnapshot

_ROWS = 50
_BUDGET = 2000
"""Records that are read one by one before it is decided whether the page reads more."""
_LONG = 0.025
"""Seconds after which a page reads no more; the server works for at most as long, and for what it has begun."""
_ID = re.compile(r"[!-z|~]{12,200}")
"""What may be the id of a job."""
_STATES = ("running", "ready", "scheduled", "blocked", "dead", "succeeded", "cancelled", "expired")
_WORDS = {"retrying": "scheduled", "failed": "dead"}
"""States of other pages, and where such jobs are."""
FIELDS = (
    ("queue", "Queue", "mail"),
    ("task", "Task", "send"),
    ("arg", "Argument", "42 or n=42"),
    ("error", "Error", "type or text"),
    ("tag", "Tag", ""),
    ("key", "Key", ""),
    ("group", "Group", ""),
    ("since", "Within", "10m"),
    ("until", "Older than", "1h"),
)
_TEXTS = ("task", "arg", "error", "tag", "key", "group", "since", "until")
SEARCHED_BY: dict[str, str] = {"state": "State", "q": "Text", **{name: label for name, label, _ in FIELDS}}
"""Parameters of the query, and their words."""


async def read(view: View) -> dict[str, Any]:
    """Search one page of jobs."""
    queue, text = view.param("queue"), view.param("q")
    given = {name: view.param(name) for name in SEARCHED_BY if view.param(name)}
    unfiltered = given.keys() <= {"state", "queue"}
    wrong = ""
    try:
        found = await _search(view, queue, filter_of(given), _ROWS if unfiltered else _BUDGET)
    except ConfigError as error:
        found, wrong = JobPage([], 0, 0, None, 0), str(error)
    chosen = state_of(view.param("state"))
    counts = await _counts(view, queue) if unfiltered else {}
    return {
        "found": found,
        "wrong": wrong,
        "fields": FIELDS,
        "tabs": [("", "All", None), *((state, state.capitalize(), counts.get(state)) for state in (*_STATES, "done"))],
        "chosen": chosen,
        "filter": given,
        "searched": view.number("searched", 0, 10**12) + found.searched,
        "by_id": await _by_id(view, text) if _ID.fullmatch(text) and not view.param("after") else None,
        "actions": [each for each in VERBS if states_for(each, chosen)],
    }


async def _search(view: View, queue: str, matching: JobFilter, budget: int) -> JobPage:
    """Search until the page is full, or has taken long."""
    began, jobs, searched, after = perf_counter(), list[JobRow](), 0, view.param("after") or None
    while True:
        page = await view.lw.ajobs(
            queue or None,
            limit=_ROWS - len(jobs),
            after=after,
            newest=view.param("oldest") != "1",
            budget=budget,
            **matching,
        )
        jobs += [job for job in page.jobs if view.finds(job, matching)]
        searched, after = searched + page.searched, page.next
        if len(jobs) == _ROWS or after is None or perf_counter() - began > _LONG:
            return replace(page, jobs=jobs, searched=searched)


async def _counts(view: View, queue: str) -> dict[str, int]:
    """Count the jobs of each place, of all queues or of one."""
    queues = [each for each in await read_queues(view.lw) if queue in ("", each.name)]
    places = ("running", "ready", "scheduled", "blocked", "dead")
    return {place: sum(each.total(place) for each in queues) for place in places}


async def _by_id(view: View, id: str) -> JobSnapshot | None:
    job = await view.lw.job(id).ainspect()
    return job if job.state != "unknown" else None


def filter_of(given: Form) -> JobFilter:
    """Return the filter that a query has."""
    wanted: dict[str, str] = {name: given[name].strip() for name in _TEXTS if given.get(name, "").strip()}
    for name in ("since", "until"):
        try:
            seconds(wanted.get(name, 0), name, zero=True)
        except ConfigError:
            text = f"{SEARCHED_BY[name]} is a time such as 10m or 1h30m, not {wanted[name][:80]!r}."
            raise ConfigError(text) from None
    if state := state_of(given.get("state", "")):
        wanted["state"] = state
    if text := given.get("q", "").strip():
        wanted["text"] = text
    return cast("JobFilter", wanted)


def state_of(word: str) -> str:
    """Return the state by which jobs are searched, for one that other pages name."""
    return _WORDS.get(word.strip(), word.strip())


PAGE = Page("jobs", "/jobs", "Jobs", read, key="j")
