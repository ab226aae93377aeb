"""The error of a call names the attempts until its patience ended."""

from __future__ import annotations

import pytest

from lockwork.errors import ServerUnavailable
from lockwork.runtime.clock import now
from lockwork.runtime.replies import Late, Retry
from lockwork.runtime.trying import Tries


@pytest.mark.parametrize(
    ("seconds", "reason"), [(0.1, "no server answers at x: refused"), (5.0, "no answer within 5.0 s")]
)
def test_shortened_last_try_does_not_hide_the_reason(seconds: float, reason: str) -> None:
    tries = Tries("redis://x", now(), 60)
    tries.pause(Retry("no server answers at x: refused"))
    tries._patience = 0
    with pytest.raises(ServerUnavailable, match=reason):
        tries.pause(Late("no answer", seconds))


def test_call_with_only_shortened_tries_says_so() -> None:
    with pytest.raises(ServerUnavailable, match=r"no answer within 0\.1 s"):
        Tries("redis://x", now(), 0).pause(Late("no answer", 0.1))
