"""Independent real servers, which a test may stop or kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from lockwork import Lockwork
from lockwork.locks.quorum import Quorum
from lockwork.runtime.embedded import start_private
from quorum_servers import Servers


@pytest.fixture(scope="session")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with ExitStack() as stack:
        yield [stack.enter_context(start_private(tmp_path_factory.mktemp(f"q{at}"))).url for at in range(5)]


@pytest.fixture(params=[3, 5])
def servers(request: pytest.FixtureRequest, five: list[str]) -> Iterator[Servers]:
    """Three or five empty servers."""
    made = Servers(five[: request.param])
    for at in range(len(made.urls)):
        made.empty(at)
    yield made
    made.resume_all()


@pytest.fixture
def quorum(servers: Servers) -> Iterator[Callable[[], Quorum]]:
    """Makes quorums with apps of their own, as in separate processes."""
    with ExitStack() as stack:

        def make() -> Quorum:
            apps = [stack.enter_context(Lockwork(url)) for url in servers.urls]
            return stack.enter_context(Quorum(apps))

        yield make
