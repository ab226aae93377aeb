"""Many jobs that are cancelled, run again or deleted by one command."""

from __future__ import annotations

from typing import Literal, cast

import click
from msgspec import Struct

from lockwork.app.lockwork import Lockwork
from lockwork.cli.progress import progress
from lockwork.cli.report import Output, Report
from lockwork.cli.text import printable
from lockwork.errors import ConfigError
from lockwork.jobs.search import JobFilter, JobState
from lockwork.words import several

Action = Literal["cancel", "retry", "delete"]
_STEP = 1000
_ENDED: tuple[JobState, ...] = ("dead", "succeeded", "cancelled", "expired")
_COUNTED: tuple[JobState, ...] = ("running", "ready", "scheduled", "blocked", "dead", "done")
"""States whose jobs the server counts without reading them."""


class _Verb(Struct, frozen=True):
    states: tuple[JobState, ...]
    """The states that it applies to."""
    which: str
    """Jobs in these states, in words."""
    doing: str
    done: str


_VERBS: dict[Action, _Verb] = {
    "cancel": _Verb(("running", "ready", "scheduled", "blocked"), "wait or run", "cancelling", "cancelled"),
    "retry": _Verb(("dead", "cancelled", "expired"), "are dead, cancelled or expired", "retrying", "will run again"),
    "delete": _Verb(("ready", "scheduled", "blocked", "done"), "do not run", "deleting", "deleted"),
}


class Bulk:
    """One action on all jobs that match, or the first `limit` of them."""

    def __init__(self, lw: Lockwork, queue: str | None, action: Action, wanted: JobFilter, limit: int | None) -> None:
        self._lw, self._queue, self._action, self._limit = lw, queue, action, limit
        self._verb = _VERBS[action]
        self._wanted = cast("JobFilter", {name: value for name, value in wanted.items() if value is not None})
        self._states = _states(self._verb, wanted.get("state"))
        if not self._states:
            raise click.UsageError(f"{action} applies to jobs that {self._verb.which}, not to --{wanted.get('state')}")
        self._searched = self._total = self._undecided = 0

    def run(self, output: Output, *, yes: bool) -> None:
        """Count the jobs, ask, and change them; raises ConfigError if none was changed."""
        with progress("counting", lambda: self._total, lambda: self._searched):
            count = self._count()
        selected = count if self._limit is None else min(count, self._limit)
        if not selected:
            why = f"no job matches among those that {self._verb.which}{self._left_out()}"
            raise ConfigError(f"nothing to {self._action}: {why}")
        if not yes:
            place = "of all queues" if self._queue is None else f"of queue {printable(self._queue)}"
            click.confirm(f"{self._action} {several(selected, 'job')} {place}?", err=True, abort=True)
        done = 0

        def follow(changed: int, _searched: int) -> None:
            nonlocal done
            done = changed

        change = {
            "cancel": self._lw.cancel_jobs,
            "retry": self._lw.retry_jobs,
            "delete": self._lw.delete_jobs,
        }[self._action]
        with progress(self._verb.doing, selected, lambda: done, changes=True):
            changed = change(self._queue, limit=selected, progress=follow, **self._wanted)
        if not changed:
            why = ", or other jobs have their unique names" if self._action == "retry" else ""
            raise ConfigError(f"no job was changed: all matching jobs changed state first{why}")
        unchanged = f"; {selected - changed:,} changed state first" if changed < selected else ""
        text = f"{several(changed, 'job')} {self._verb.done}{unchanged}{self._left_out()}"
        document = {"action": self._action, "matched": count, "changed": int(changed), "undecided": self._undecided}
        output.show(lambda: Report(document, [text]))

    def _left_out(self) -> str:
        jobs = several(self._undecided, "job")
        return f"; {jobs} left out: the kept part of the record does not decide" if self._undecided else ""

    def _count(self) -> int:
        only_state = not self._wanted.keys() - {"state", "hide_arguments"}
        return sum(self._count_state(state, read=not (only_state and state in _COUNTED)) for state in self._states)

    def _count_state(self, state: JobState, *, read: bool) -> int:
        matching = cast("JobFilter", {**self._wanted, "state": state})
        if not read:
            return self._lw.jobs(self._queue, limit=1, **matching).total
        count, after, before = 0, None, self._total
        while True:
            page = self._lw.jobs(self._queue, limit=_STEP, budget=_STEP, after=after, **matching)
            count += len(page.jobs)
            self._searched += page.searched
            self._undecided += page.undecided
            self._total = before + page.total
            after = page.next
            if after is None:
                return count


def _states(verb: _Verb, chosen: JobState | None) -> tuple[JobState, ...]:
    """Return the states of the jobs to change if the user selected the state `chosen`; None selects all."""
    if chosen is None:
        return verb.states
    if chosen == "done":
        return tuple(state for state in verb.states if state in (*_ENDED, "done"))
    return (chosen,) if chosen in verb.states or ("done" in verb.states and chosen in _ENDED) else ()
