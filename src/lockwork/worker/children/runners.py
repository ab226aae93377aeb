"""What a child tells its supervisor of its runner processes, so that they can be measured and counted."""

from __future__ import annotations

from lockwork.worker.supervisor.child_process import REASONS, Child
from lockwork.worker.ipc.messages import Reporter

_BEGUN, _GONE = "runner-begun", "runner-gone"


class RunnerReports:
    """A child's side."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def begun(self, pid: int) -> None:
        """There is one more."""
        self._reporter.tell(f"{_BEGUN} {pid}")

    def gone(self, pid: int, reason: str) -> None:
        """It has ended, and why it has to be replaced, if it does: one of REASONS."""
        self._reporter.tell(f"{_GONE} {pid} {reason}")


def concerns(text: str) -> bool:
    """Whether a report is about a runner."""
    return text.startswith((_BEGUN, _GONE))


def heard(child: Child, text: str) -> str:
    """Note what a child has reported; returns why a runner is replaced, and nothing when none is."""
    kind, _, rest = text.partition(" ")
    number, _, reason = rest.partition(" ")
    if not number.isdecimal():
        return ""
    if kind == _BEGUN:
        child.runners[int(number)] = None
        return ""
    child.runners.pop(int(number), None)
    return reason if reason in REASONS else ""
