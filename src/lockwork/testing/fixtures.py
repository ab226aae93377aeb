"""What the fixture `lockwork` of the pytest plugin is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from lockwork.tasks.task import Task
from lockwork.testing import fakes, recorder
from lockwork.testing.clocks import MovableClock
from lockwork.testing.fakes import FakeJob
from lockwork.testing.recorder import Recording


class LockworkFixture(Recording):
    """A recording, with the other functions of `lockwork.testing` as methods."""

    def inline(self) -> Recording:
        """Run jobs when they are enqueued: see `lockwork.testing.inline`."""
        return recorder.inline()

    def fake_job(
        self,
        task: Task[..., Any, Any] | None = None,
        /,
        *,
        attempt: int = 1,
        checkpoints: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        tags: Sequence[str] = (),
        id: str = "job",
        fence: int = 1,
    ) -> AbstractContextManager[FakeJob]:
        """Run a block as a job: see `lockwork.testing.fake_job`."""
        return fakes.fake_job(
            task, attempt=attempt, checkpoints=checkpoints, headers=headers, tags=tags, id=id, fence=fence
        )

    @property
    def clock(self) -> MovableClock:
        """The clock of the server of `run_all`, or of the fixture lockwork_server; starts the server if need be."""
        return self._sent()
