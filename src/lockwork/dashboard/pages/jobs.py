"""Jobs: all jobs by state, queue, task, tag, key, argument, error and age."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from time import perf_counter
from typing import Any, cast

from msgspec import Struct

from lockwork.dashboard.bulk import VERBS, states_for
from lockwork.dashboard.page import Form, Page, View
from lockwork.dashboard.time_range import read_time
from lockwork.durations import seconds
from lockwork.errors import ConfigError
from lockwork.jobs.arguments import argument_in
from lockwork.jobs.job import ashown_snapshot
from lockwork.jobs.options import at
from lockwork.jobs.search import JobFilter, JobPage, JobRow, read_cursor
from lockwork.jobs.snapshot import JobSnapshot
from lockwork.protocol.search.search_position import Position

_ROWS = 50
_BUDGET = 2000
"""Records that are read one by one before the page decides to read more."""
_LONG = 0.025
"""Maximum seconds that a page reads; the server works for at most this long, and finishes begun work."""
_ID = re.compile(r"[!-z|~]{12,200}")
"""Possible ids of jobs."""
_STATES = ("running", "ready", "scheduled", "blocked", "dead", "succeeded", "cancelled", "expired")
_WORDS = {"retrying": "scheduled", "failed": "dead"}
"""States of other pages, with the corresponding states here."""
FIELDS = (
    ("queue", "Queue", "mail"),
    ("task", "Task", "send"),
    ("arg", "Argument", "42 or n=42"),
    ("error", "Error", "type or text"),
    ("tag", "Tag", ""),
    ("key", "Key", ""),
    ("group", "Group", ""),
    ("since", "Since", "10m"),
    ("until", "Until", "1h"),
)
_TEXTS = ("task", "arg", "error", "tag")
SEARCHED_BY: dict[str, str] = {"state": "State", "q": "Text", **{name: label for name, label, _ in FIELDS}}
"""Parameters of the query, and their labels."""
_NAMES = ("key", "group")
"""Parameters that are names from users' data."""


async def read(view: View) -> dict[str, Any]:
    """Search one page of jobs."""
    queue, text = view.param("queue"), view.param("q")
    read_cursor(view.param("after"), view.param("oldest") != "1")
    parameters = searched_by(view)
    unfiltered = parameters.keys() <= {"state", "queue"}
    wrong = ""
    parts = not text or view.param("parts") == "1"
    after = view.param("after") or None
    budget = _ROWS if unfiltered else _BUDGET
    began = perf_counter()
    exact = 0
    try:
        page = await _search(view, queue, filter_of(parameters), budget, after, _Part(text, parts), began)
        if not parts and page.next is None and len(page.jobs) == _ROWS:
            exact, parts = _ROWS, True
            page = replace(page, next=Position(0, view.param("oldest") != "1").text())
        elif not parts and page.next is None:  # all exact matches were found; continue with the others
            exact, parts = len(page.jobs), True
            others = await _search(view, queue, filter_of(parameters), budget, None, _Part(text, parts), began, exact)
            page = replace(others, jobs=page.jobs + others.jobs)
        else:
            exact = len(page.jobs) if not parts else 0
    except ConfigError as error:
        page, wrong = JobPage([], 0, 0, None, 0), str(error)
    same_pass = parts == (not text or view.param("parts") == "1")
    searched = page.searched + (view.number("searched", 0, 10**12) if same_pass else 0)
    undecided = page.undecided + (view.number("undecided", 0, 10**12) if same_pass else 0)
    row_count = len(page.jobs) + view.number("shown", 0, 10**12)
    # a page of many queues may read the same records again for the next page
    searched = min(row_count if unfiltered else searched, page.total)
    onward = {"after": page.next, "parts": "1" if parts and text else None, "shown": row_count}
    chosen = state_of(view.param("state"))
    counts = await _counts(view, queue) if unfiltered else {}
    return {
        "found": page,
        "wrong": wrong,
        "fields": FIELDS,
        "tabs": [("", "All", None), *((state, state.capitalize(), counts.get(state)) for state in (*_STATES, "done"))],
        "chosen": chosen,
        "moments": {
            name: when for name in ("since", "until") if isinstance(when := read_time(view.param(name)), datetime)
        },
        "filter": parameters,
        "searches": not unfiltered,
        "searched": searched,
        "undecided": undecided,
        "shown": row_count,
        "next": {**onward, "searched": searched, "undecided": undecided or None} if page.next else None,
        "exact": exact,
        "parts": parts and bool(text),
        "rows": _ROWS,
        "reaches": await _reaches(view, queue) if not page.jobs and page.next is None and not unfiltered else None,
        "by_id": await _by_id(view, text) if _ID.fullmatch(text) and not view.param("after") else None,
        "actions": [each for each in VERBS if states_for(each, chosen)],
    }


class _Part(Struct, frozen=True):
    """Jobs that one pass shows: jobs with the text as a whole value, or all others."""

    text: str
    others: bool

    def shows(self, view: View, job: JobRow) -> bool:
        if not self.text:
            return True
        named = self.text in (job.id, job.task, job.key, job.group, *job.tags)
        arguments = [*enumerate(job.args or ()), *(job.kwargs or {}).items()]
        of_argument = argument_in([(str(name), each) for name, each in arguments], self.text)
        return (named or (of_argument and view.finds(job, {"arg": self.text}))) is not self.others


async def _search(
    view: View,
    queue: str,
    matching: JobFilter,
    budget: int,
    after: str | None,
    part: _Part,
    began: float,
    have: int = 0,
) -> JobPage:
    """Search until the page is full, or the time limit is over."""
    jobs, searched, undecided = list[JobRow](), 0, 0
    while True:
        page = await view.search(
            queue or None,
            matching,
            limit=_ROWS - have - len(jobs),
            after=after,
            newest=view.param("oldest") != "1",
            budget=budget,
            shows=lambda job: part.shows(view, job),
        )
        jobs += page.jobs
        searched, undecided, after = searched + page.searched, undecided + page.undecided, page.next
        if have + len(jobs) == _ROWS or after is None or perf_counter() - began > _LONG:
            return replace(page, jobs=jobs, searched=searched, undecided=undecided)


async def _reaches(view: View, queue: str) -> datetime | None:
    """Return the end of the oldest success in the history."""
    oldest = await view.lw.ajobs(queue or None, state="succeeded", newest=False, limit=1, budget=_BUDGET)
    return oldest.jobs[0].ended if oldest.jobs else None


async def _counts(view: View, queue: str) -> dict[str, int]:
    """Count the jobs of each place, of all queues or of one."""
    queues = [each for each in await view.queues() if queue in ("", each.name)]
    places = ("running", "ready", "scheduled", "blocked", "dead")
    return {place: sum(each.total(place) for each in queues) for place in places}


async def _by_id(view: View, id: str) -> JobSnapshot | None:
    job = await ashown_snapshot(view.lw.job(id))
    return job if job.state != "unknown" else None


def searched_by(view: View) -> dict[str, str]:
    """Return the search parameters in the query of a page."""
    parameters = {name: view.name(name) if name in _NAMES else view.param(name) for name in SEARCHED_BY}
    return {name: text for name, text in parameters.items() if text}


def filter_of(given: Form) -> JobFilter:
    """Return the filter of a query."""
    conditions: dict[str, object] = {name: text for name in _TEXTS if (text := given.get(name, "").strip())}
    conditions |= {name: given[name] for name in _NAMES if given.get(name)}
    for name in ("since", "until"):
        if text := given.get(name, "").strip():
            conditions[name] = when = read_time(text)
            try:
                at(when, name) if isinstance(when, datetime) else seconds(when, name, zero=True)
            except ConfigError:
                one = "an age such as 10m or 1h30m, or a time such as 2026-11-25T09:20Z"
                raise ConfigError(f"{SEARCHED_BY[name]} is {one}, not {text[:80]!r}.") from None
    if state := state_of(given.get("state", "")):
        conditions["state"] = state
    if text := given.get("q", "").strip():
        conditions["text"] = text
    return cast("JobFilter", conditions)


def state_of(word: str) -> str:
    """Return the search state for a state of other pages."""
    return _WORDS.get(word.strip(), word.strip())


PAGE = Page("jobs", "/jobs", "Jobs", read, key="j")
