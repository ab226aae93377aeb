"""The fetcher with a simulated server: its requests, and its end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from lockwork.errors import ServerRefused, ServerUnavailable
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.leases import Batch, Leased, SessionOver
from lockwork.worker.execution import fetcher as fetching
from lockwork.worker.execution import queue_client
from lockwork.worker.execution.contexts import FetchOptions, SessionContext
from lockwork.worker.execution.fetcher import Fetcher
from lockwork.worker.execution.queue_state import FetchState, QueueState
from lockwork.worker.execution.slots import WorkerSlots


class Server:
    """A server without jobs and without idle workers."""

    def __init__(self, error: Exception | None = None, offer: Leased | None = None) -> None:
        self.asking = False
        self.asked = 0
        self.jobs: list[Leased] = []
        self.passed_on = 0
        self.joined = 0
        self.last = 0
        """Last delivery that the fetcher confirmed in its request."""
        self.awake = False
        """True if a forwarded wake-up wakes another worker in any case."""
        self.next_due: float | None = None
        self.answers = asyncio.Event()
        """The server's reply to a forwarded wake-up."""
        self.answers.set()
        self._error = error
        self.offer = offer

    def end_trouble(self) -> None:
        self._error = None

    def run(self, protocol: Any) -> Any:
        effect = protocol.send(None)
        protocol.close()
        name = effect.script.name if hasattr(effect, "script") else ""
        self.joined += name == "queue/heartbeat"
        if name == "queue/reserve":
            self.last = effect.args[5]
        elif name == "queue/forward_wakeup":
            self.awake = bool(effect.args[1])
        return self._reserve() if name == "queue/reserve" else self._other(name)

    async def _reserve(self) -> Batch:
        self.asking = True
        await asyncio.sleep(0)
        self.asked += 1
        if self._error is not None:
            raise self._error
        return Batch(self.jobs, self.next_due)

    async def _other(self, name: str) -> Leased | bool:
        if not name:
            if self.offer is None:
                await asyncio.Event().wait()
            offer, self.offer = self.offer, None
            assert offer is not None
            return offer
        self.passed_on += name == "queue/forward_wakeup"
        await self.answers.wait()
        return True


def make(server: Server, settler: Any = None, **options: Any) -> Fetcher:
    driver, runner = [server], [None]
    places: Any = options.pop("places", WorkerSlots(5))
    source = QueueState("default", QueueKeys("lw", "default"), runner[0], settler=settler)  # type: ignore[arg-type]
    context = SessionContext(driver[0], "host/1/a", "lw", places, 1000)  # type: ignore[arg-type]
    return Fetcher(context, [source], FetchOptions(**options))


class Places(WorkerSlots):
    """Slots that record jobs instead of running them."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.begun: list[Leased] = []

    def start(self, jobs: list[Leased], runner: Any) -> None:
        """Record the jobs."""
        self.begun += jobs


async def turns(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


async def test_burst_that_waits_for_its_outcomes_can_be_stopped() -> None:
    """Otherwise, SIGTERM would not end the worker until the server is available."""
    waits = asyncio.Event()

    async def settled() -> bool:
        waits.set()
        await asyncio.Event().wait()
        return True

    made = make(Server(), settled=settled)
    running = asyncio.create_task(made.run())
    await waits.wait()
    made.stop()
    async with asyncio.timeout(5):
        await running


async def test_burst_fetches_again_after_all_outcomes_are_settled() -> None:
    server = Server()
    looked: list[int] = []

    async def settled() -> bool:
        looked.append(server.asked)
        return True

    async with asyncio.timeout(5):
        await make(server, settled=settled).run()
    assert (looked, server.asked) == ([1], 2)


async def test_queue_that_refuses_outcomes_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs would run, and then run again."""
    monkeypatch.setattr(fetching, "_UNSETTLED", 0.0)
    server, settler = Server(), SimpleNamespace(failing=True)
    made = make(server, settler)
    (source,) = made._queues
    source.state = FetchState.WOKEN
    running = asyncio.create_task(made.run())
    for _ in range(50):
        await asyncio.sleep(0)
    # the wake-up was forwarded
    assert (server.asked, server.passed_on) == (0, 1)
    settler.failing = False
    await turns(lambda: server.asked == 1)
    made.stop()
    await running


async def test_repeated_error_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(fetching, "backoff", lambda _failures: 0.0)
    server = Server(ServerRefused("a Lockwork key contains data of another program"))
    made = make(server)
    running = asyncio.create_task(made.run())
    await turns(lambda: server.asked >= 20)
    made.stop()
    await running
    assert caplog.text.count("jobs of queue default cannot be fetched") == 1


_OFFER = Leased("j1", b"1 7 ~", b"1,4,,;", 1, 7)


async def test_offered_job_starts_without_a_fetch() -> None:
    server, places = Server(offer=_OFFER), Places(5)
    made = make(server, places=places)
    running = asyncio.create_task(made.run())
    await turns(lambda: server.asked == 2)
    assert (places.begun, places.free, server.last, server.passed_on) == ([_OFFER], 4, 7, 0)
    made.stop()
    await running


async def test_ending_worker_does_not_fetch() -> None:
    server = Server()
    async with asyncio.timeout(5):
        await make(server, ending=lambda: True).run()
    assert server.asked == 0


async def test_job_offered_to_ending_worker_is_returned() -> None:
    """The attempt is not counted, and the worker fetches nothing more."""
    server, places, alone, back = Server(offer=_OFFER), Places(5), [False], list[Leased]()
    made = make(server, places=places, ending=lambda: alone[0])
    made._queues[0].runner = SimpleNamespace(give_back=back.append)
    running = asyncio.create_task(made.run())
    await turns(lambda: server.asked == 1)
    alone[0] = True
    async with asyncio.timeout(5):
        await running
    assert (back, places.begun, places.free, server.asked) == ([_OFFER], [], 5, 1)


async def test_jobs_fetched_by_stopping_worker_do_not_start() -> None:
    """They would have to finish within the grace period; other workers can run them now."""
    server, places, back = Server(), Places(5), list[Leased]()
    server.jobs = [_OFFER, _OFFER._replace(id="j2")]
    made = make(server, places=places)
    made._queues[0].runner = SimpleNamespace(give_back=back.append)
    running = asyncio.create_task(made.run())
    await turns(lambda: server.asking)
    made.stop()
    async with asyncio.timeout(5):
        await running
    assert ([job.id for job in back], places.begun, places.free) == (["j2", "j1"], [], 5)


@pytest.mark.parametrize("why", ["no place", "the last one", "outcomes that are not taken"])
async def test_offer_that_cannot_start_stays_on_the_server(why: str) -> None:
    """The next fetch receives the job, or the worker forwards it at once."""
    server, places = Server(offer=_OFFER), Places(5)
    settler = SimpleNamespace(failing=False)
    made = make(server, settler, places=places, max_jobs=1 if why == "the last one" else None)
    (source,) = made._queues
    running = asyncio.create_task(made.run())
    await turns(lambda: server.asked == 1)
    if why == "no place":
        places.free = 0
    elif why == "the last one":
        source.held = 1  # an earlier call may have brought it
    else:
        settler.failing = True
    await turns(lambda: server.offer is None)
    for _ in range(50):
        await asyncio.sleep(0)
    assert not places.begun
    assert source.deliveries.last == 0
    source.held = 0
    made.stop()
    await running


async def test_queue_is_not_fetched_during_nack() -> None:
    """A resent nack would forward a job that was offered since and has started."""
    server = Server()
    made = make(server)
    (source,) = made._queues
    source.state = FetchState.WOKEN
    server.answers.clear()
    made._forward_wakeup(source)
    running = asyncio.create_task(made.run())
    await turns(lambda: server.passed_on)
    for _ in range(50):
        await asyncio.sleep(0)
    assert server.asked == 0
    server.answers.set()
    await turns(lambda: server.asked == 1)
    made.stop()
    await running


@pytest.mark.parametrize("due", [True, False])
async def test_stopping_worker_forwards_its_timer(due: bool) -> None:
    """Otherwise, a scheduled job that only this worker waits for would be late."""
    server = Server()
    server.next_due = 60.0 if due else None
    made = make(server)
    (source,) = made._queues
    running = asyncio.create_task(made.run())
    await turns(lambda: source.task is not None)
    made.stop()
    await running
    assert (server.passed_on, server.awake) == (1, due)


@pytest.mark.parametrize("error", [ZeroDivisionError("a fault of ours"), ServerUnavailable("a fault of ours")])
async def test_fetcher_retries_after_any_error(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if isinstance(error, ServerUnavailable):
        error.__cause__ = ValueError("no password today")
    monkeypatch.setattr(fetching, "backoff", lambda _failures: 0.0)
    server = Server(error)
    made = make(server)
    running = asyncio.create_task(made.run())
    await turns(lambda: server.asked >= 20 or running.done())
    server.end_trouble()
    await turns(lambda: not made._queues[0].failures or running.done())
    made.stop()
    await running
    (complaint,) = (record for record in caplog.records if record.levelname == "WARNING")
    assert complaint.getMessage() == "jobs of queue default cannot be fetched: a fault of ours"
    assert complaint.exc_info is not None


async def test_fetcher_ends_with_its_session() -> None:
    made = make(Server(SessionOver("host/1/a")))
    with pytest.raises(SessionOver):
        async with asyncio.timeout(5):
            await made.run()


async def test_process_without_jobs_rejoins_queue_after_data_loss(caplog: pytest.LogCaptureFixture) -> None:
    """A new process would first have to load the app."""
    server = Server(SessionOver("host/1/a"))
    made = make(server, lease=15.0)
    made._queues[0].deliveries.last = 7
    running = asyncio.create_task(made.run())
    await turns(lambda: server.joined or running.done())
    server.end_trouble()
    await turns(lambda: made._queues[0].state is FetchState.SLEEPING or running.done())
    assert not running.done()
    assert server.last == 0, "a new server may have an earlier clock"
    made.stop()
    await running
    assert "did not know this worker process any more" in caplog.text


async def test_process_with_jobs_ends_after_data_loss() -> None:
    """Other workers may run its jobs."""
    server = Server()
    places = Places(5)
    made = make(server, lease=15.0, places=places)
    places._inbox.append((Leased("a", b"1 5 0", b"", 1, 5), made._queues[0].runner))
    server._error = SessionOver("host/1/a")
    with pytest.raises(SessionOver):
        async with asyncio.timeout(5):
            await made.run()
    assert not server.joined


async def test_process_pauses_between_repeated_rejoins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_client, "_REJOIN", 0.05)
    server = Server(SessionOver("host/1/a"))
    made = make(server, lease=15.0)
    began = asyncio.get_running_loop().time()
    running = asyncio.create_task(made.run())
    async with asyncio.timeout(5):
        while server.joined < 4:
            await asyncio.sleep(0.01)
    assert asyncio.get_running_loop().time() - began >= 3 * 0.05
    made.stop()
    await running
