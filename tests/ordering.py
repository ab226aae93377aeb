"""The order of tests: long tests begin first, so that no long test runs alone at the end.

Tests of less than eight seconds follow in any order, so that tests that wait share the processors with tests that
compute.
"""

from __future__ import annotations

from itertools import accumulate, islice

import pytest

SECONDS = {
    "chaos/test_failover_chaos.py": 20,
    "chaos/test_forged_messages_chaos.py": 10,
    "chaos/test_queue_chaos.py": 8,
    "chaos/test_server_chaos.py": 8,
    "cli/test_top.py::test_columns_shrink": 8,
    "contrib/django/test_postgresql.py": 10,
    "contrib/django/test_tasks_backend.py": 8,
    "contrib/django/test_web.py": 12,
    "dashboard/test_cost.py": 8,
    "dashboard/test_hostile_payloads.py": 40,
    "dashboard/test_in_chromium.py::test_page_does_not_move": 25,
    "dashboard/test_in_chromium.py::test_page_is_accessible": 30,
    "dashboard/test_steering_in_chromium.py": 8,
    "dashboard/test_windows_in_chromium.py": 8,
    "docs/test_cli_page.py": 20,
    "docs/test_site.py::test_pages_have_no_barriers": 8,
    "examples/test_audit_mutants.py": 25,
    "examples/test_django_example.py": 15,
    "examples/test_fastapi_example.py": 12,
    "examples/test_flask_example.py": 12,
    "examples/test_interrupt.py": 10,
    "examples/test_sale.py": 10,
    "examples/test_with_dashboard.py": 15,
    "locks/test_ctrl_c.py::test_ctrl_c_in_a_blocking_wait": 10,
    "models/test_models.py::test_scripts_match_model[flows in small steps]": 10,
    "models/test_models.py::test_scripts_match_model[many groups]": 10,
    "models/test_models.py::test_scripts_match_model[quorum]": 10,
    "models/test_models.py::test_scripts_match_model[rwlock]": 10,
    "queues/model/test_mixed_queue.py::test_counters_agree": 20,
    "schedules/test_slots.py::test_slots_match": 10,
    "synchronizers/test_barrier_memory.py": 8,
    "typing/test_decorated.py": 40,
    "worker/process/test_killed_at_random.py": 10,
    "worker/test_server_away.py": 8,
}
"""Seconds of long tests on two busy cores, by a prefix of their ids (`make test ARGS=--durations=100`)."""
_BROWSER = 3
"""Seconds of a test with a browser."""


def long_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Let each xdist worker begin with an equal share of the long tests: it begins with an equal part of this list.

    Tests with a browser are long, too. They follow each other, so that few workers start one.
    """
    browser = {item: _BROWSER for item in items if "chromium" in getattr(item, "fixturenames", ())}
    long = {item: seconds for item in items if (seconds := _seconds(item))}
    first = [*browser, *(item for item in long if item not in browser)]
    times = [long.get(item) or browser[item] for item in first]
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for item, time, end in zip(first, times, accumulate(times), strict=True):
        shares[int((end - time / 2) * workers / sum(times))].append(item)
    rest = iter([item for item in items if item not in long and item not in browser])
    ordered: list[pytest.Item] = []
    for waiting, share in zip(range(workers, 0, -1), shares, strict=True):
        size = (len(items) - len(ordered)) // waiting  # as xdist divides the list
        ordered += [*share, *islice(rest, max(0, size - len(share)))]
    return [*ordered, *rest]


def _seconds(item: pytest.Item) -> int:
    name = item.nodeid.removeprefix("tests/")
    return next((seconds for prefix, seconds in SECONDS.items() if name.startswith(prefix)), 0)
