"""What the error of a call says that was tried until its patience was over."""

from __future__ import annotations

import pytest

from lockwork.errors import ServerUnavailable
from lockwork.runtime.clock import now
from lockwork.runtime.replies import Late, Retry
from lockwork.runtime.trying import Tries


@pytest.mark.parametrize(
    ("seconds", "reason"), [(0.1, "no server answers at x: refused"), (5.0, "no answer within 5.0 s")]
)
def test_a_last_try_that_was_cut_short_does_not_hide_the_reason(seconds: float, reason: str) -> None:
    tries = Tries("redis://x", now(), 60)
    tries.pause(Retry("no server answers at x: refused"))
    tries._patience = 0
    with pytest.raises(ServerUnavailable, match=reason):
        tries.pause(Late("no answer", seconds))


def test_a_call_whose_every_try_was_cut_short_says_so() -> None:
    with pytest.raises(ServerUnavailable, match=r"no answer within 0\.1 s"):
        Tries("redis://x", now(), 0).pause(Late("no answer", 0.1))
