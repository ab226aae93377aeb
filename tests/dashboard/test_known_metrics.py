"""Pages share one cached read of the hourly metrics."""

from __future__ import annotations

import pytest

from lockwork import Lockwork
from lockwork.dashboard import reading
from lockwork.dashboard.reading import KnownMetrics


async def test_week_is_read_again_only_after_a_while(alw: Lockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    known, reads = KnownMetrics(), 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        return (await alw.ametrics("mail", span="7d")).total.succeeded + reads

    assert [await known.read("7d", "mail", read) for _ in range(3)] == [1, 1, 1]
    assert await known.read("7d", "all", read) == 2
    monkeypatch.setitem(reading._SPAN_FRESH, "24h", 0.0)
    assert [await known.read("24h", "mail", read) for _ in range(2)] == [3, 4]
    assert [await known.read("1h", "mail", read) for _ in range(2)] == [5, 6]
