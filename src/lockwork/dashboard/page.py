"""A page: its path, what it reads, what can be done there; and the view that one request has of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, cast
from urllib.parse import quote, urlencode

from starlette.requests import Request

from lockwork.app.lockwork import Lockwork
from lockwork.dashboard import formats
from lockwork.dashboard.access import User
from lockwork.dashboard.bulk import RecentChanges
from lockwork.dashboard.reading import KnownDeadlocks, KnownMetrics
from lockwork.dashboard.redaction import Hidden, KnownTasks, Redact, redacted
from lockwork.jobs.search import JobFilter, JobRow, argument_in
from lockwork.telemetry.metrics import Point, Series, Span

RANGES = {"15m": "15 min", "1h": "1 hour", "24h": "24 hours", "7d": "7 days"}
"""The time ranges of the top bar."""
_HIDDEN_BY = "hide_arguments of the task"
_KEPT = ("range", "paused")
"""Parameters that every link of a page keeps."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What all requests share."""

    lw: Lockwork
    allow_actions: bool
    redact: Redact | None
    refresh: float
    """Seconds between two readings of a page that somebody looks at."""
    known: KnownTasks
    changes: RecentChanges = field(default_factory=RecentChanges)
    deadlocks: KnownDeadlocks = field(default_factory=KnownDeadlocks)
    metrics: KnownMetrics = field(default_factory=KnownMetrics)


@dataclass(frozen=True, slots=True)
class View:
    """One request, as the code and the template of a page see it."""

    request: Request
    dashboard: Dashboard
    user: User
    csrf: str
    """The token for the forms of this page."""

    @property
    def lw(self) -> Lockwork:
        """The app whose server is shown."""
        return self.dashboard.lw

    @property
    def may_act(self) -> bool:
        """True if this user may change something here."""
        return self.dashboard.allow_actions and self.user.actions

    @property
    def span(self) -> Span:
        """The time range that was chosen, one of RANGES."""
        chosen = self.param("range")
        return cast("Span", chosen) if chosen in RANGES else "1h"

    async def series(self, queue: str | None = None) -> Series:
        """Read the metrics of a queue, or of all queues, in the time range."""
        return await self.dashboard.metrics.read(
            self.span, ("series", queue), lambda: self.lw.ametrics(queue, span=self.span)
        )

    async def task_metrics(self) -> dict[tuple[str, str], Point]:
        """Read the metrics of each task in the time range."""
        return await self.dashboard.metrics.read(self.span, "tasks", lambda: self.lw.atask_metrics(span=self.span))

    @property
    def path(self) -> str:
        """The path of this page below the mount prefix."""
        whole, root = str(self.request.scope["path"]), self._root
        return whole[len(root) :] if root and whole.startswith(root) else whole

    @property
    def paused(self) -> bool:
        """True if the page is not updated while somebody looks; the URL says so."""
        return self.param("paused") == "1"

    def param(self, name: str, default: str = "") -> str:
        """Return a parameter of the query, without spaces around it."""
        return self.request.query_params.get(name, default).strip()

    def number(self, name: str, default: int, most: int) -> int:
        """Return a whole number of the query from 0 to `most`."""
        text = self.param(name)
        return min(int(text), most) if text.isdecimal() and len(text) < 16 else default

    def in_path(self, name: str) -> str:
        """Return a part of the path."""
        return str(self.request.path_params[name])

    def url(self, path: str, **query: object) -> str:
        """Return the absolute path of a page, below the mount prefix and without a host.

        The time range stays, and whether the page is paused. None and "" are left out of the query; a list is repeated.
        Parts of the path that are names must come through `quoted`.
        """
        kept = query if path.startswith("/-/") else {name: self.param(name) for name in _KEPT} | query
        shown = {name: each for name, each in kept.items() if each not in (None, "", False, [])}
        return f"{quote(self._root)}{path}" + (f"?{urlencode(shown, doseq=True)}" if shown else "")

    @property
    def bare(self) -> str:
        """This page without its query, for forms."""
        return f"{quote(self._root)}{quote(self.path)}"

    def here(self, **changes: object) -> str:
        """Return this page with another query; None takes a parameter away."""
        query: defaultdict[str, Any] = defaultdict(list)
        for name, each in self.request.query_params.multi_items():
            query[name].append(each)
        return self.url(quote(self.path), **query | changes)

    def shown(self, task: str | None, name: str, value: object) -> object:
        """Return what may be shown of a value of a job, after the `redact` hook: see Redact."""
        return redacted(self.dashboard.redact, task, name, value)

    def call(
        self, task: str | None, args: tuple[object, ...] | list[object] | None, kwargs: Mapping[str, object] | None
    ) -> ShownText:
        """Write the arguments of a job in one line, as far as they may be shown."""
        if self.dashboard.known.hides(task) and (args is not None or kwargs is not None):
            return ShownText(formats.value(Hidden()), _HIDDEN_BY)
        given = None if args is None else [self._positional(task, at, each) for at, each in enumerate(args)]
        named = None if kwargs is None else {name: self.shown(task, name, each) for name, each in kwargs.items()}
        hidden = [each.rule for each in (*(given or ()), *(named or {}).values()) if isinstance(each, Hidden)]
        return ShownText(formats.call(given, named), ", ".join(dict.fromkeys(hidden)))

    def argument(self, task: str | None, name: int | str, value: object) -> tuple[str, ShownText]:
        """Name one argument of a job, and write it as far as it may be shown; `name`: its name or position."""
        label = self.dashboard.known.parameter(task, name) if isinstance(name, int) else name
        if self.dashboard.known.hides(task):
            return label, ShownText(formats.value(Hidden()), _HIDDEN_BY, Hidden())
        shown = self._positional(task, name, value) if isinstance(name, int) else self.shown(task, name, value)
        return label, ShownText(formats.value(shown), shown.rule if isinstance(shown, Hidden) else "", shown)

    def _positional(self, task: str | None, position: int, value: object) -> object:
        shown, name = self.shown(task, str(position), value), self.dashboard.known.parameter(task, position)
        return shown if isinstance(shown, Hidden) or name == str(position) else self.shown(task, name, shown)

    def text(self, task: str | None, name: str, value: object) -> ShownText:
        """Write "error", "result", "progress" or "checkpoint" of a job, as far as it may be shown."""
        shown = self.shown(task, name, value)
        rule = shown.rule if isinstance(shown, Hidden) else ""
        text = shown if name == "error" and isinstance(shown, str) else formats.value(shown)
        return ShownText(text, rule, shown)

    def finds(self, job: JobRow, matching: JobFilter) -> bool:
        """Return whether a job may be found by its texts: one that is hidden would be guessed letter by letter."""
        hooked = self.dashboard.redact is not None or self.dashboard.known.hides(job.task)
        if not hooked or not {"arg", "error", "text"} & matching.keys():
            return True
        given: list[tuple[int | str, object]] = [*enumerate(job.args or ()), *(job.kwargs or {}).items()]
        shown = [(*self.argument(job.task, name, each), each) for name, each in given]
        seen = [(name, each) for name, text, each in shown if text == formats.value(each)]
        said = self.text(job.task, "error", job.error.text) if job.error else ShownText("")
        if job.args is not None and len(seen) == len(given) and said == (job.error.text if job.error else ""):
            return True
        error = f"{job.error.type}: {said}" if job.error else ""
        texts = [job.id, job.task, job.key, job.group, *job.tags, error, *(text for _, text, _ in shown)]
        return (
            ("arg" not in matching or argument_in(seen, matching["arg"]))
            and matching.get("error", "") in error
            and any(matching.get("text", "") in (text or "") for text in texts)
        )

    @property
    def why_not(self) -> str:
        """Why this user may change nothing."""
        if not self.user.actions:
            return "You have read-only access."
        return "This dashboard is read-only: it was started without --allow-actions (allow_actions=True)."

    @property
    def _root(self) -> str:
        return str(self.request.scope.get("root_path", "")).rstrip("/")


class ShownText(str):
    """A text as it may be shown; `rule` says why something in it is hidden, "" if nothing is.

    `value` is what it is the text of, as far as that may be shown.
    """

    __slots__ = ("rule", "value")
    rule: str
    value: object

    def __new__(cls, text: str, rule: str = "", value: object = None) -> Self:
        """Make the text."""
        made = super().__new__(cls, text)
        made.rule, made.value = rule, value
        return made


Read = Callable[[View], Awaitable[dict[str, Any]]]
"""Reads what the template of a page shows."""
Form = Mapping[str, str]
Act = Callable[[View, Form], Awaitable[str]]
"""Does something, and returns a sentence that says what happened and to how many.

It raises LockworkError if it cannot; the sentence of that is shown.
"""


class NotFound(Exception):
    """What the page is about does not exist; the text says so."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page at one path, with its template, its reader and its actions.

    A form posts to the page's own path with `action=NAME`: the macro `action` writes such a form.
    """

    name: str
    path: str
    title: str
    read: Read
    actions: Mapping[str, Act] = field(default_factory=dict)
    rail: bool = True
    """Whether the rail has a link to it."""
    key: str = ""
    """Goes there after `g`."""
    within: str = ""
    """The page of the rail that is marked while this one is shown."""
    ranged: bool = False
    """Whether it shows a time range, which the top bar then offers."""
    charts: bool = False
    """Whether it has charts, for which the browser loads a script."""
    live: bool = True
    """Whether it is read again and again while somebody looks."""

    @property
    def template(self) -> str:
        """The file of its template."""
        return f"{self.name}.html"


def quoted(name: str) -> str:
    """Return a name as one part of a path; a slash in it stays, as the paths of pages end with their names."""
    return quote(name, safe="/:@")
