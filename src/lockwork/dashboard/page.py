"""A page: its path, reader and actions; and the view of one request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import time
from typing import Any, Self
from urllib.parse import quote, urlencode

from msgspec import Struct, field
from starlette.requests import Request

from lockwork.app.job_search import JobSearch
from lockwork.app.lockwork import Lockwork
from lockwork.dashboard import formats
from lockwork.dashboard.access import User
from lockwork.dashboard.bulk import RecentChanges
from lockwork.dashboard.dead_groups import KnownDeadGroups
from lockwork.dashboard.reading import KnownMetrics, PeriodMetrics
from lockwork.dashboard.redaction import Hidden, KnownTasks, Redact, redacted
from lockwork.dashboard.time_range import TimeRange
from lockwork.inspection.overview import NAMES, OverviewReader, Part, SystemOverview
from lockwork.inspection.queue_state import QueueOverview
from lockwork.jobs.arguments import argument_in
from lockwork.jobs.search import JobFilter, JobPage, JobRow, Visible
from lockwork.protocol.keys import base_queue
from lockwork.protocol.queue.envelope import ENCRYPTED
from lockwork.telemetry.metrics import Activity, Span, activity

_MOST = 1000
"""Maximum queues and partitions that one page reads."""
_HIDDEN_BY = "hide_arguments of the task"
_OF_PAGE = ("after", "parts", "searched", "shown", "undecided", "skip")
"""Parameters for the start of a page, and for the results of earlier pages."""
_KEPT = ("range", "from", "to", "paused")
"""Parameters that every link of a page keeps."""


class Dashboard(Struct, frozen=True):
    """State that all requests share."""

    lw: Lockwork
    allow_actions: bool
    redact: Redact | None
    refresh: float
    """Seconds between two updates of an open page."""
    known: KnownTasks
    changes: RecentChanges = field(default_factory=RecentChanges)
    reader: OverviewReader = field(default_factory=OverviewReader)
    metrics: KnownMetrics = field(default_factory=KnownMetrics)
    dead_groups: KnownDeadGroups = field(default_factory=KnownDeadGroups)


class View(Struct, frozen=True):
    """One request, for the code and the template of a page."""

    request: Request
    dashboard: Dashboard
    user: User
    csrf: str
    """Token for the forms of this page."""

    @property
    def lw(self) -> Lockwork:
        """App whose server is shown."""
        return self.dashboard.lw

    @property
    def may_act(self) -> bool:
        """True if this user may change something here."""
        return self.dashboard.allow_actions and self.user.actions

    @property
    def period(self) -> TimeRange:
        """Shown time range; raises ConfigError for an invalid address."""
        return TimeRange.read(self.param("range"), self.param("from"), self.param("to"), time())

    async def activity(self, span: Span) -> Activity:
        """Read the metrics of all queues and tasks."""
        return await self.dashboard.metrics.read(
            span, "activity", lambda: self.lw.runtime.arun(activity(self.lw.config.prefix, None, None, span))
        )

    async def metrics(self, queue: str | None = None) -> PeriodMetrics:
        """Read the metrics of all queues, or of one, in the shown time range."""
        period = self.period

        async def read() -> PeriodMetrics:
            span_activity = await self.activity(period.span)
            return PeriodMetrics.of(span_activity if queue is None else span_activity.of(queue), period)

        return await self.dashboard.metrics.read(period.span, (queue, period.brush), read)

    async def overview(self, parts: Part, names: Sequence[str] | None = None) -> SystemOverview:
        """Read the overview of `names`, or of all queues that ever had a job or that a task of an app uses."""
        if names is not None:
            return await self.dashboard.reader.aread(self.lw.runtime, parts, names=names, most=_MOST)
        own = [name for queue in self.lw.registry.queues() for name in self.lw.config.partitions.names(queue)]
        return await self.dashboard.reader.aread(self.lw.runtime, parts | Part.APPS, own=own, most=_MOST)

    async def queue_names(self) -> list[str]:
        """Read the queues and partitions that ever had a job, or that a task of an app uses."""
        return (await self.overview(NAMES)).names

    async def queues(self) -> list[QueueOverview]:
        """Read the queues with their partitions."""
        return (await self.overview(Part.QUEUES)).queues

    async def queue(self, name: str) -> QueueOverview | None:
        """Read one queue or partition; return None if the server does not have it."""
        names = [each for each in await self.queue_names() if name in (each, base_queue(each))]
        partitions = (await self.overview(Part.QUEUES, names)).partitions if names else []
        return QueueOverview(name, partitions) if partitions else None

    @property
    def path(self) -> str:
        """Path of this page below the mount prefix."""
        whole, root = str(self.request.scope["path"]), self._root
        return whole[len(root) :] if root and whole.startswith(root) else whole

    @property
    def paused(self) -> bool:
        """True if the URL disables live updates of the page."""
        return self.param("paused") == "1"

    def param(self, name: str, default: str = "") -> str:
        """Return a parameter of the query, without spaces around it."""
        return self.request.query_params.get(name, default).strip()

    def name(self, name: str) -> str:
        """Return a parameter of the query that is a name from users' data, including spaces around it."""
        return self.request.query_params.get(name, "")

    def number(self, name: str, default: int, most: int) -> int:
        """Return a whole number of the query from 0 to `most`."""
        text = self.param(name)
        return min(int(text), most) if text.isdecimal() and len(text) < 16 else default

    def in_path(self, name: str) -> str:
        """Return a part of the path."""
        return str(self.request.path_params[name])

    def url(self, path: str, **query: object) -> str:
        """Return the absolute path of a page, below the mount prefix and without a host.

        Keeps the shown time and the pause of updates. None and "" are left out of the query; a list is repeated. Names
        in the path must come through `quoted`.
        """
        all_parameters = query if path.startswith("/-/") else {name: self.param(name) for name in _KEPT} | query
        parameters = {name: each for name, each in all_parameters.items() if each not in (None, "", False, [])}
        return f"{quote(self._root)}{path}" + (f"?{urlencode(parameters, doseq=True)}" if parameters else "")

    @property
    def bare(self) -> str:
        """Return this page without its query, for forms."""
        return f"{quote(self._root)}{quote(self.path)}"

    def here(self, **changes: object) -> str:
        """Return this page with another query; None removes a parameter."""
        query: defaultdict[str, Any] = defaultdict(list)
        for name, each in self.request.query_params.multi_items():
            query[name].append(each)
        return self.url(quote(self.path), **query | changes)

    def anew(self, **changes: object) -> str:
        """Return this page from its beginning, with another query."""
        return self.here(**dict.fromkeys(_OF_PAGE), **changes)

    @property
    def whole_time(self) -> str:
        """Return this page without the chosen part of its time range."""
        return self.here(**{"from": None, "to": None})

    def shown(self, task: str | None, name: str, value: object) -> object:
        """Return the visible form of a job's value, after the `redact` hook: see Redact."""
        return redacted(self.dashboard.redact, task, name, value)

    def call(
        self,
        task: str | None,
        args: tuple[object, ...] | list[object] | None,
        kwargs: Mapping[str, object] | None,
        *,
        hidden: bool = False,
        encrypted: bool = False,
    ) -> ShownText:
        """Format the visible arguments of a job in one line; hidden, encrypted: none is visible."""
        if hidden or (self.dashboard.known.hides(task) and (args is not None or kwargs is not None)):
            return ShownText(formats.value(Hidden()), _HIDDEN_BY)
        if encrypted:
            return ShownText(ENCRYPTED, "", ENCRYPTED)
        positional = None if args is None else [self._positional(task, at, each) for at, each in enumerate(args)]
        named = None if kwargs is None else {name: self.shown(task, name, each) for name, each in kwargs.items()}
        rules = [each.rule for each in (*(positional or ()), *(named or {}).values()) if isinstance(each, Hidden)]
        return ShownText(formats.call(positional, named), ", ".join(dict.fromkeys(rules)))

    def argument(
        self, task: str | None, name: int | str, value: object, *, hidden: bool = False
    ) -> tuple[str, ShownText]:
        """Name one argument of a job, and format its visible value; name: its name or position."""
        label = self.dashboard.known.parameter(task, name) if isinstance(name, int) else name
        if hidden or self.dashboard.known.hides(task):
            return label, ShownText(formats.value(Hidden()), _HIDDEN_BY, Hidden())
        visible_value = self._positional(task, name, value) if isinstance(name, int) else self.shown(task, name, value)
        return label, ShownText(
            formats.value(visible_value), visible_value.rule if isinstance(visible_value, Hidden) else "", visible_value
        )

    def _positional(self, task: str | None, position: int, value: object) -> object:
        visible_value, name = self.shown(task, str(position), value), self.dashboard.known.parameter(task, position)
        return (
            visible_value
            if isinstance(visible_value, Hidden) or name == str(position)
            else self.shown(task, name, visible_value)
        )

    def text(self, task: str | None, name: str, value: object) -> ShownText:
        """Format the visible "error", "result", "progress" or "checkpoint" of a job."""
        visible_value = self.shown(task, name, value)
        rule = visible_value.rule if isinstance(visible_value, Hidden) else ""
        text = visible_value if name == "error" and isinstance(visible_value, str) else formats.value(visible_value)
        return ShownText(text, rule, visible_value)

    async def search(
        self,
        queue: str | None,
        matching: JobFilter,
        *,
        limit: int,
        after: str | None = None,
        newest: bool = True,
        budget: int = 1000,
        shows: Callable[[JobRow], bool] | None = None,
    ) -> JobPage:
        """Read a page of jobs that `shows` accepts, without hidden values."""
        visible = Visible(
            self.dashboard.known.hidden,
            lambda job: self.finds(job, matching),
            shows,
            hints=self.dashboard.redact is None,
        )
        search = JobSearch(self.lw.runtime, self.lw.config, self.lw.registry)
        return await search.apage(visible, queue, limit=limit, after=after, newest=newest, budget=budget, **matching)

    def finds(self, job: JobRow, matching: JobFilter) -> bool:
        """Return True if a job may be found by its texts: redacted values could be guessed letter by letter.

        The search itself handles jobs with `hide_arguments`, except for their errors.
        """
        if self.dashboard.redact is None or not {"arg", "error", "text"} & matching.keys():
            return True
        arguments: list[tuple[int | str, object]] = [*enumerate(job.args or ()), *(job.kwargs or {}).items()]
        visible_arguments = [(*self.argument(job.task, name, each), each) for name, each in arguments]
        plain_arguments = [(name, each) for name, text, each in visible_arguments if text == formats.value(each)]
        error_text = self.text(job.task, "error", job.error.text) if job.error else ShownText("")
        if (
            job.args is not None
            and len(plain_arguments) == len(arguments)
            and error_text == (job.error.text if job.error else "")
        ):
            return True
        error = f"{job.error.type}: {error_text}" if job.error else ""
        texts = [job.id, job.task, job.key, job.group, *job.tags, error, *(text for _, text, _ in visible_arguments)]
        return (
            ("arg" not in matching or argument_in(plain_arguments, matching["arg"]))
            and matching.get("error", "") in error
            and any(matching.get("text", "") in (text or "") for text in texts)
        )

    @property
    def why_not(self) -> str:
        """Explain why this user may not change anything."""
        if not self.user.actions:
            return "You have read-only access."
        return "This dashboard is read-only: it was started without --allow-actions (allow_actions=True)."

    @property
    def _root(self) -> str:
        return str(self.request.scope.get("root_path", "")).rstrip("/")


class ShownText(formats.Prose):
    """A visible text; `rule` explains a hidden part, "" without one.

    `value` is the visible source of the text.
    """

    __slots__ = ("rule", "value")
    rule: str
    value: object

    def __new__(cls, text: str, rule: str = "", value: object = None) -> Self:
        """Make the text."""
        instance = super().__new__(cls, text)
        instance.rule, instance.value = rule, value
        return instance


Read = Callable[[View], Awaitable[dict[str, Any]]]
"""Reads the data for the template of a page."""
Form = Mapping[str, str]
Act = Callable[[View, Form], Awaitable[str]]
"""Performs an action, and returns a sentence with its result and the number of affected items.

Raises LockworkError on failure; the page shows its text.
"""


class NotFound(Exception):
    """The subject of the page does not exist; the text says so."""


class Page(Struct, frozen=True):
    """A page at one path, with its template, its reader and its actions.

    A form posts to the page's own path with `action=NAME`: the macro `action` writes such a form.
    """

    name: str
    path: str
    title: str
    read: Read
    actions: Mapping[str, Act] = field(default_factory=dict)
    rail: bool = True
    """True if the rail has a link to it."""
    key: str = ""
    """Keyboard shortcut after `g`."""
    within: str = ""
    """Page of the rail that is marked while this page is shown."""
    ranged: bool = False
    """True if it shows a time range, which the top bar then offers."""
    charts: bool = False
    """True if it has charts: then the browser loads a script for them."""
    live: bool = True
    """True if the page is updated while it is open."""

    @property
    def template(self) -> str:
        """Template file."""
        return f"{self.name}.html"


def quoted(name: str) -> str:
    """Quote a name as one part of a path; a slash stays, because paths of pages end with their names."""
    return quote(name, safe="/:@")
