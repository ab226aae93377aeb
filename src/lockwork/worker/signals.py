"""The signals that the processes of a worker hear."""

from __future__ import annotations

import signal


def heard() -> list[signal.Signals]:
    """What would else end such a process. A hang-up that is ignored, as under nohup, stays so."""
    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, *hangup]
