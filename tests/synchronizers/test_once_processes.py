"""Once per period, with several real processes: the use cases of a job that many machines could start."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from lockwork import Lockwork
from lockwork.errors import OnceFailed
from processes import script, until

_JOB = """
import os, sys
from lockwork import Lockwork
lw = Lockwork(os.environ["LOCKWORK_URL"])
log = open(sys.argv[1], "a", buffering=1)

@lw.once("report:{slot}", every="1h")
def report(slot):
    log.write(f"{slot} {os.getpid()}\\n")
    return [slot, os.getpid()]

print("ready")
for slot in sys.stdin:
    print(report(slot.strip())[1])
"""

_PUSH = """
import os, sys, asyncio
from lockwork import Lockwork
log = open(sys.argv[1], "a", buffering=1)

async def main():
    async with Lockwork(os.environ["LOCKWORK_URL"]) as lw:
        @lw.once("push:{user}", every="1d")
        async def push(user):
            log.write(f"{user}\\n")
        await asyncio.gather(*(push(n % 20) for n in range(100)))

asyncio.run(main())
"""

_STUCK = """
import os, time
from lockwork import Lockwork

def stuck():
    print("inside", flush=True)
    time.sleep(600)

Lockwork(os.environ["LOCKWORK_URL"], lock_lease="1s").once("report").run(stuck)
"""


def test_job_that_many_machines_start_runs_once_per_slot(lw: Lockwork, url: str, tmp_path: Path) -> None:
    """Seed system E: a scheduled job that many machines could start must run on exactly one of them each time."""
    log = tmp_path / "log"
    with ExitStack() as stack:
        machines = [stack.enter_context(script(_JOB, log, url=url)) for _ in range(4)]
        for machine in machines:
            assert machine.line() == "ready"
        for slot in range(12):
            for machine in machines:
                machine.tell(f"s{slot}")
        replies = [[machine.line() for _ in range(12)] for machine in machines]
    assert all(answers == replies[0] for answers in replies), "all machines learn the same runner"
    runs = [line.split() for line in log.read_text().splitlines()]
    assert [pid for _, pid in sorted(runs, key=lambda run: int(run[0][1:]))] == replies[0]
    assert len({slot for slot, _ in runs}) == len(runs) == 12


def test_user_gets_at_most_one_push_per_period(lw: Lockwork, url: str, tmp_path: Path) -> None:
    """Seed system E: a user may get at most one push message per period."""
    log = tmp_path / "log"
    with ExitStack() as stack:
        senders = [stack.enter_context(script(_PUSH, log, url=url)) for _ in range(3)]
        assert [sender.wait() for sender in senders] == [0, 0, 0]
    assert Counter(log.read_text().split()) == {str(user): 1 for user in range(20)}


def test_run_of_a_killed_process_is_lost(lw: Lockwork, url: str) -> None:
    """At most once: its progress is unknown, so only `again_if_lost` runs it again."""
    report = lw.once("report")
    with script(_STUCK, url=url) as runner:
        assert runner.line() == "inside"
        runner.process.kill()
        runner.wait()
    with pytest.raises(OnceFailed, match="started in this period and never ended: its runner died"):
        report.run(lambda: "never")
    assert report.inspect().state == "lost"
    assert lw.once("report", again_if_lost=True).run(lambda: "again") == "again"
    assert report.run(lambda: "never") == "again"


def test_stopped_runner_cannot_overwrite_a_later_run(lw: Lockwork, url: str) -> None:
    """After a pause longer than its lease, `again_if_lost` runs it again, and the server refuses the first result."""
    import signal

    code = _STUCK.replace("time.sleep(600)", "input()").replace(
        '.once("report")', '.once("report", again_if_lost=True)'
    )
    with script(code, url=url) as runner:
        assert runner.line() == "inside"
        runner.send(signal.SIGSTOP)
        assert lw.once("report", again_if_lost=True).run(lambda: "again") == "again"
        runner.send(signal.SIGCONT)
        runner.tell("go on")
        assert runner.wait() == 1
        assert "LockLost: once 'report' lost its lease while it ran" in runner.errors
    assert until(lambda: lw.once("report").run(lambda: "never"), "it is kept") == "again"


def test_once_survives_a_script_flush(lw: Lockwork, admin: redis.Redis) -> None:
    admin.script_flush()
    assert lw.once("report").run(lambda: admin.script_flush() and "made") == "made"
    admin.script_flush()
    assert lw.once("report").run(lambda: "never") == "made"
