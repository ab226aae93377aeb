"""`--json` of each view, empty and full: one document with the documented keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.conftest import Office
from processes import until

JOB = {"id", "queue", "partition", "task", "args", "kwargs", "state", "attempt", "enqueued", "due", "started", "ended",
       "worker", "error", "priority", "key", "group", "tags", "flow", "schedule", "stock", "size",
       "hidden", "encrypted"}  # fmt: skip


@pytest.fixture
def busy(office: Office) -> Any:
    """Create jobs in several states, a flow, a stock and a lock; yield the office, a dead job and a flow."""
    dead = office.app.send.enqueue(7)
    until(lambda: dead.state() == "dead", "it dies")
    flow = office.lw.chain(office.app.add.call(1), office.app.add.call(2)).enqueue()
    flow.result(30)
    phones = office.lw.stock("phones", 10, queue="sums")
    phones.reserve("ada")
    with office.lw.lock("catalog"):
        yield office, dead, flow
    phones.delete()


def keys(document: Any, path: str = "") -> dict[str, set[str]]:
    """Return the keys of each object of a document by path. Only the first entry of a list counts."""
    found: dict[str, set[str]] = {}
    if isinstance(document, dict):
        found[path] = set(document)
        for name, value in document.items():
            found |= keys(value, f"{path}.{name}" if path else name)
    elif isinstance(document, list) and document:
        found |= keys(document[0], f"{path}[]")
    return found


TOP = {
    "status": {"findings", "last_hour", "queues", "workers"},
    "jobs": {"jobs", "searched", "total", "next", "sampled", "undecided"},
    "workers": {"workers"},
    "schedules": {"schedules"},
    "flows": {"flows", "searched", "total"},
    "stocks": {"stocks"},
    "locks": {"locks", "waits", "deadlocks"},
    "queue": {"queues"},
    "dead": {"queues"},
    "dead groups": {"queues"},
    "doctor": {"findings", "checked"},
}


@pytest.mark.parametrize("view", TOP)
def test_keys_are_the_same_when_there_is_nothing(office: Office, view: str) -> None:
    found = office.run(*view.split(), "--prefix", "none", "--json")
    assert (found.exit_code, found.stderr) == (0, "")
    assert set(json.loads(found.stdout)) == TOP[view]


@pytest.mark.parametrize("view", TOP)
def test_documents_of_full_views(busy: Any, view: str) -> None:
    office, _, _ = busy
    found = keys(office.json(*view.split()))
    assert found[""] == TOP[view]
    for path, wanted in ROWS.get(view, {}).items():
        assert found[path] == wanted, path


COUNTS = {"ready", "scheduled", "running", "blocked", "dead", "enqueued", "succeeded", "failed", "retried", "recovered",
          "revived", "cleared", "forgotten", "cancelled", "expired", "skipped", "paused"}  # fmt: skip
SCHEDULE = {"name", "queue", "task", "when", "next", "last", "last_job", "enqueued", "overlapped", "missed", "misfire",
            "overlap", "paused", "created", "declared"}  # fmt: skip
WORKER = {"name", "host", "pid", "version", "app", "app_version", "queues", "processes", "concurrency", "started",
          "lease", "state", "busy", "slots", "jobs", "memory", "lag", "seen", "isolating", "code",
          "waiting"}  # fmt: skip
DEAD = {"id", "task", "args", "kwargs", "priority", "attempts", "crashes", "shared_crashes", "deliveries", "size",
        "cut", "problem", "error", "dead_for", "age", "encrypted"}  # fmt: skip
ROWS: dict[str, dict[str, set[str]]] = {
    "status": {"queues[]": {"queue", "workers", "oldest", "status"}, "queues[].status": COUNTS, "workers[]": WORKER},
    "jobs": {"jobs[]": JOB},
    "workers": {"workers[]": WORKER},
    "schedules": {"schedules[]": SCHEDULE},
    "queue": {"queues[]": {"queue", "limits", "workers", *COUNTS}},
    "flows": {"flows[]": {"id", "queue", "enqueued", "state", "jobs", "succeeded", "failed", "cancelled", "skipped",
                          "compensated", "uncompensated"}},
    "stocks": {"stocks[]": {"name", "queue", "status"},
               "stocks[].status": {"total", "available", "reserved", "sold", "expired"}},
    "locks": {"locks[]": {"kind", "name", "capacity", "kept_for", "holders", "waiters", "more_holders",
                          "more_waiters"}},
    "dead": {"queues.mail": {"jobs", "next", "problem"}, "queues.mail.jobs[]": DEAD},
    "dead groups": {"queues.mail": {"groups"},
                    "queues.mail.groups[]": {"error", "task", "count", "oldest", "newest", "example"}},
    "doctor": {
        "findings[]": {"level", "subject", "text", "fix", "link"},
        "checked": {"servers", "queues", "workers", "apps"},
        "checked.servers[]": {"version", "latency"},
    },
}  # fmt: skip


def test_documents_of_one_thing(busy: Any) -> None:
    office, dead, flow = busy
    (worker,) = office.lw.workers()
    job = office.json("job", dead.id)
    assert {"id", "queue", "task", "state", "args", "kwargs", "error", "timeline", "graph"} <= set(job)
    assert (job["id"], job["state"], job["error"]["type"]) == (dead.id, "dead", "ValueError")
    assert office.json("workers", worker.name)["workers"][0]["name"] == worker.name
    assert {"id", "queue", "state", "jobs", "graph"} <= set(office.json("flows", flow.id))
    assert set(office.json("dead", "show", "-q", "mail", dead.id)) == DEAD
    queue = office.json("queue", "mail")
    assert {"queue", "limits", "workers"} <= set(queue)
    assert set(queue["limits"]) == {"rate", "concurrency", "size"}
