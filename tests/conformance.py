"""The conformance suite:

tests for every topology and every server. LOCKWORK_TEST_TOPOLOGY=cluster (or sentinel) runs only these. Tests of a
single server's features are listed here with the reason, and are deselected.
"""

from __future__ import annotations

from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
FOLDERS = (
    "contrib/django/test_tasks_backend.py",
    "flows",
    "hooks",
    "jobs",
    "locks",
    "queues",
    "schedules",
    "synchronizers",
    "tasks",
    "together",
    "worker",
)

CORE = (
    "contrib/django/test_tasks_backend.py",
    "flows/test_flow_queues.py",
    "flows/test_flow_results.py",
    "jobs/test_job_lookup.py",
    "locks/election/test_election.py",
    "locks/fencing/test_register.py",
    "locks/multilock/test_multilock.py",
    "locks/rwlock/test_rwlock_reading_and_writing.py",
    "locks/semaphore/test_semaphore_permits.py",
    "queues/dead/test_dead_set.py",
    "queues/delay_queue/test_delay_queue.py",
    "queues/partitions/test_partitioned_queue.py",
    "queues/stock/test_stock.py",
    "queues/test_wake_ups.py",
    "schedules/test_schedule_handles.py",
    "synchronizers/test_latch.py",
    "synchronizers/test_limiter.py",
    "synchronizers/test_once.py",
    "worker/test_several_queues.py",
)
"""Tests that `-m core` selects for short runs, with each feature represented."""

ONE_SERVER_FIXTURES = {
    "proxy": "loses requests and replies of one connection",
    "simulated": "plays one server in virtual time",
    "bench": "plays one server in virtual time",
    "full": "plays one server in virtual time",
    "shop": "plays one server in virtual time",
}
ONE_SERVER: dict[str, tuple[str, ...]] = {
    "loses requests and replies of one connection": (
        "locks/test_force_release.py::test_repeated_force_release_ends_one_grant_only",
        "locks/test_named_bugs_javascript.py::test_redlock_369_a_try_with_a_lost_reply_does_not_block_the_next",
        "locks/test_named_bugs_javascript.py::test_sim_6864_a_try_that_timed_out_does_not_take_the_lock",
        "locks/test_named_bugs_redisson_leases.py::test_2515_renewal_goes_on_after_a_time_out",
        "locks/test_named_bugs_redisson_waiting.py::test_4871_an_unlock_that_is_sent_again",
        "worker/test_server_away.py",
    ),
    "plays one server in virtual time": (
        "locks/test_inspect.py::test_lock_is_held_until_the_last_microsecond_of_its_lease",
    ),
    "counts calls, and a Cluster is asked once more, or sends once more, around each subscription": (
        "synchronizers/test_latch.py::test_process_gets_one_message_for_its_latch_waiters",
        "synchronizers/test_limiter.py::test_acquire_costs_one_call",
    ),
    "reads the slow log of one server": (
        "locks/test_dead_waiters.py::test_looking_at_a_lock_does_not_block_the_server",
    ),
    "looks at one server's keys, or writes them by pipelines": (
        "locks/rwlock/test_rwlock_reading_and_writing.py::test_single_key_expires",
        "locks/test_dead_waiters.py::test_free_lock_is_granted_at_once_after_many_gave_up",
        "locks/test_dead_waiters.py::test_free_lock_is_granted_at_once_without_waiting",
    ),
    "sets the clock of one server": (
        "worker/test_announcements.py::test_killed_worker_is_lost_and_forgotten_after_an_hour",
    ),
    "makes one call with the keys of several locks": (
        "locks/multilock/test_multilock.py::test_repeated_refused_call_holds_no_lock",
    ),
    "connects a user of one server": (
        "queues/test_forged_offers.py::test_flood_of_hints_costs_bounded_calls",
        "queues/test_forged_offers.py::test_forged_offer_runs_no_job",
        "queues/test_forged_offers.py::test_malformed_message_does_not_stop_a_queue",
        "tasks/test_producers_announce.py::test_without_the_right_to_announce_jobs_are_enqueued",
    ),
    "listens on one server for what a Cluster sends on its shards": (
        "queues/test_offers.py::test_cancelled_offered_job_ends_when_it_is_forwarded",
    ),
}
"""Files, and tests of a file, that depend on a single server, by reason."""


def select(config: pytest.Config, items: list[pytest.Item], topology: str) -> None:
    """Mark the core tests, and deselect tests outside of the suite if there are several servers."""
    for item in items:
        if _listed(item, CORE):
            item.add_marker("core")
    if topology == "single":
        return
    chosen = [item for item in items if _conforms(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


def skips(path: Path, markers: str, topology: str) -> bool:
    """Return True if a run need not read a folder or file, because it selects none of its tests.

    markers: the run's option -m.
    """
    if markers != "core" and topology == "single":
        return False
    read = [_TESTS / place for place in (CORE if markers == "core" else FOLDERS)]
    return not any(path.is_relative_to(place) or place.is_relative_to(path) for place in read)


def _conforms(item: pytest.Item) -> bool:
    if not any(item.path.is_relative_to(_TESTS / folder) for folder in FOLDERS):
        return False
    if set(ONE_SERVER_FIXTURES) & set(getattr(item, "fixturenames", ())):
        return False
    return not any(_listed(item, places) for places in ONE_SERVER.values())


def _listed(item: pytest.Item, places: tuple[str, ...]) -> bool:
    name = f"{item.path.relative_to(_TESTS)}::{getattr(item, 'originalname', item.name)}"
    return any(name == place or name.startswith((f"{place}::", f"{place}/")) for place in places)
