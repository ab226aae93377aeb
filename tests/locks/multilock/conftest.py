"""Both ways to acquire the parts of a multilock."""

from __future__ import annotations

import pytest

from locks.multilock.parts import Several
from lockwork import Lockwork
from lockwork.locks.multilock import MultiLock


@pytest.fixture(params=["one script", "by slot"])
def several(request: pytest.FixtureRequest) -> Several:
    """Makes multilocks as on a single server, and as in a Cluster where each key has another slot."""

    def make(app: Lockwork, *names: str, **options: object) -> MultiLock:
        made = app.multilock(*names, **options)  # type: ignore[arg-type]
        made._by_slot = request.param == "by slot"
        return made

    return make
