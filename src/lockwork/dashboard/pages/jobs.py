"""Jobs: all of them by state, queue, task, tag, key, argument, error and age; change all that match."""

from __future__ import annotations

from typing import Any, cast

from lockwork.dashboard.formats import several
from lockwork.dashboard.page import Form, Page, View
from lockwork.errors import ConfigError
from lockwork.jobs.search import JobFilter, JobPage

_ROWS = 50
_STATES = ("running", "ready", "scheduled", "blocked", "dead", "succeeded", "cancelled", "expired")
_WORDS = {"retrying": "scheduled", "failed": "dead"}
"""States of other pages, and where such jobs are."""
FIELDS = (
    ("queue", "Queue", "mail"),
    ("task", "Task", "send"),
    ("arg", "Argument", "42 or n=42"),
    ("error", "Error", "type or message"),
    ("tag", "Tag", ""),
    ("key", "Key", ""),
    ("group", "Group", ""),
    ("since", "Within", "10m"),
    ("until", "Older than", "1h"),
)
_TEXTS = ("task", "arg", "error", "tag", "key", "group", "since", "until")


async def read(view: View) -> dict[str, Any]:
    """Search one page of jobs."""
    wrong = ""
    try:
        found = await view.lw.ajobs(
            view.param("queue") or None,
            limit=_ROWS,
            after=view.param("after") or None,
            newest=view.param("oldest") != "1",
            **_filter(dict(view.request.query_params)),
        )
    except ConfigError as error:
        found, wrong = JobPage([], 0, 0, None, 0), str(error)
    chosen = _state(view.param("state"))
    return {
        "found": found,
        "wrong": wrong,
        "fields": FIELDS,
        "tabs": [("", "All", None), *((state, state.capitalize(), None) for state in (*_STATES, "done"))],
        "chosen": chosen,
        "many": "these" if not found.next and not view.param("after") else "all",
        "filter": {name: view.param(name) for name in ("state", "queue", "q", *_TEXTS) if view.param(name)},
        "may_cancel": chosen in ("", "ready", "scheduled", "blocked", "running"),
        "may_retry": chosen in ("", "dead", "cancelled", "expired", "done"),
    }


async def cancel(view: View, form: Form) -> str:
    """Cancel the jobs that match."""
    many = await view.lw.acancel_jobs(form.get("queue") or None, **_filter(form))
    return f"Cancelled {several(many, 'job')}."


async def retry(view: View, form: Form) -> str:
    """Run the jobs that match again."""
    many = await view.lw.aretry_jobs(form.get("queue") or None, **_filter(form))
    return f"{several(many, 'job runs', 'jobs run')} again."


async def delete(view: View, form: Form) -> str:
    """Delete the jobs that match."""
    many = await view.lw.adelete_jobs(form.get("queue") or None, **_filter(form))
    return f"Deleted {several(many, 'job')}."


def _filter(given: Form) -> JobFilter:
    wanted: dict[str, str] = {name: given[name].strip() for name in _TEXTS if given.get(name, "").strip()}
    if state := _state(given.get("state", "")):
        wanted["state"] = state
    if text := given.get("q", "").strip():
        wanted["text"] = text
    return cast("JobFilter", wanted)


def _state(word: str) -> str:
    return _WORDS.get(word.strip(), word.strip())


PAGE = Page("jobs", "/jobs", "Jobs", read, {"cancel": cancel, "retry": retry, "delete": delete}, key="j")
