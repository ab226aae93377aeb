"""Inspection of a semaphore, and forced release of its permits."""

from __future__ import annotations

import threading

from lockwork import Lockwork
from processes import until


def test_state_names_holders_and_waiters(lw: Lockwork) -> None:
    gpu = lw.semaphore("gpu", 2, units=2, tags=["render"])
    with gpu as grant:
        thread = threading.Thread(target=lambda: gpu.acquire().release(), name="second")
        thread.start()
        until(lambda: gpu.inspect().waiting == 1, "it waits")
        state = gpu.inspect()
        assert (state.capacity, state.used, state.held, state.waiting) == (2, 2, 1, 1)
        (holder,) = state.holders
        assert holder.fence == grant.fence
        assert holder.units == 2
        assert 0 < holder.expires_in <= 15
        assert holder.holder.tags == ("render",)
        assert state.line[0].holder.label == "second"
        assert gpu.inspect(holders=0, waiters=0).holders == ()
    thread.join()


def test_force_release_ends_every_grant_and_notifies_the_holders(lw: Lockwork) -> None:
    told: list[int] = []
    gpu = lw.semaphore("gpu", 2, on_lost=lambda grant: told.append(grant.fence))
    grants = [gpu.acquire(), gpu.acquire()]
    with lw.semaphore("other", 1) as other:
        assert gpu.force_release() == 2
        assert gpu.available() == 2
        until(lambda: len(told) == 2, "both were told")
        assert all(grant.lost for grant in grants)
        assert not other.lost
    assert gpu.force_release() == 0
