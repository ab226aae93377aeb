"""The state machine of a queue in a worker's fetcher."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from lockwork.protocol.keys import QueueKeys
from lockwork.worker.execution.queue_state import ASKABLE, ASLEEP, TRANSITIONS, FetchState, QueueState


def queue_in(state: FetchState) -> QueueState:
    no_runner: Any = None
    return QueueState("mail", QueueKeys("lw", "mail"), no_runner, state=state)


def documented() -> dict[str, set[str]]:
    """Read the table in the docstring."""
    table: dict[str, set[str]] = {}
    for row in re.findall(r"\| (.*) \|", FetchState.__doc__ or "")[1:]:
        state, _, following = row.split(" | ")
        table[state] = set(re.findall(r"\b[A-Z_]{5,}\b", following))
    return table


def test_documented_transitions_equal_checked_transitions() -> None:
    checked = {state.name: {following.name for following in TRANSITIONS[state]} for state in FetchState}
    assert documented() == checked


@pytest.mark.parametrize(("before", "after"), list(product(FetchState, FetchState)), ids=lambda state: state.name)
def test_transitions_outside_of_the_table_are_refused(before: FetchState, after: FetchState) -> None:
    queue = queue_in(before)
    if after.name in documented()[before.name]:
        queue.enter(after)
        assert queue.state is after
    else:
        with pytest.raises(RuntimeError, match=f"from {before.name} to {after.name}"):
            queue.enter(after)
        assert queue.state is before


def test_queue_state_starts_ready() -> None:
    no_runner: Any = None
    assert QueueState("mail", QueueKeys("lw", "mail"), no_runner).state is FetchState.READY


def test_fetch_states_are_askable_or_asleep_or_under_way() -> None:
    assert {state for state in FetchState if queue_in(state).askable} == ASKABLE
    assert set(FetchState) - ASKABLE - ASLEEP == {FetchState.ASKING, FetchState.FORWARDING}


def test_states_are_reachable_and_can_enter_forwarding() -> None:
    """A fetcher that ends forwards its wake-ups, so FORWARDING is reachable from every other state."""
    assert set().union(*TRANSITIONS.values()) == set(FetchState)
    for state in set(FetchState) - {FetchState.FORWARDING}:
        assert FetchState.FORWARDING in TRANSITIONS[state]
