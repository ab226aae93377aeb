"""The batcher without a worker: jobs that join and are cancelled at any step of the event loop."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockwork import Lockwork
from lockwork.tasks.batch import Batching
from lockwork.worker.execution.batching import Batcher, _Batch, _BatchJob
from lockwork.worker.execution.contexts import ExecutionContext

SIZE = 3


@dataclass(frozen=True)
class Plan:
    """A job: the turn of the loop when it joins, and the number of turns until it is cancelled."""

    joins: int
    cancelled: int | None
    fails: bool


PLANS = st.lists(
    st.builds(Plan, st.integers(0, 12), st.none() | st.integers(0, 10), st.booleans()), min_size=1, max_size=12
)


class Places:
    """Slots that are never full and never about to receive jobs."""

    full = False
    all_begun = True


class Reversed(Batcher):
    """Mutant: returns the results in the wrong order."""

    def _results(self, value: object, count: int) -> list[Any]:
        return super()._results(value, count)[::-1]


class Keeping(Batcher):
    """Mutant: a job that is cancelled while its batch gathers stays in it."""

    def _leave(self, batch: _Batch, member: _BatchJob) -> None:
        return


class Overfull(Batcher):
    """Mutant: a full batch does not start."""

    def _begin(self, batch: _Batch) -> None:
        if len(batch.members) != SIZE:
            super()._begin(batch)


class Noting(_Batch):
    """Counts the jobs that ended without a call."""

    unheard = 0

    def never_called(self, task: asyncio.Task[None]) -> None:
        Noting.unheard += sum(not member.done.done() for member in self.members)
        super().never_called(task)


@dataclass
class Context:
    """The attributes of a job that the batcher reads."""

    id: int
    cancelled: bool = False


async def run(plans: list[Plan], kind: type[Batcher], work: int, linger: float = 0.0) -> None:
    """Run the jobs."""
    calls: list[list[int]] = []
    lw = Lockwork("redis://127.0.0.1:1", patience=0)

    @lw.task(batch=SIZE)
    async def together(items: list[int]) -> list[int | Exception]:
        calls.append(list(items))
        for _ in range(work):
            await asyncio.sleep(0)
        return [ValueError(item) if plans[item].fails else item * 10 for item in items]

    nothing: Any = None  # no threads, no dependencies
    places: Any = Places()
    context = ExecutionContext(lw.registry, lw.config, nothing, nothing, places, nothing)
    batcher = kind(together, Batching(SIZE, linger), context, copy_context(), lambda: False)
    contexts = [Context(number) for number in range(len(plans))]

    async def job(number: int, plan: Plan) -> object:
        for _ in range(plan.joins):
            await asyncio.sleep(0)
        member: Any = contexts[number]
        joining = asyncio.ensure_future(batcher.join(member, number))
        if plan.cancelled is not None:
            for _ in range(plan.cancelled):
                await asyncio.sleep(0)
            if not joining.done():
                contexts[number].cancelled = True
                joining.cancel()
        return (await asyncio.gather(joining, return_exceptions=True))[0]

    async with asyncio.timeout(5):
        ends = await asyncio.gather(*(job(number, plan) for number, plan in enumerate(plans)))
    check(plans, calls, contexts, ends)


def check(plans: list[Plan], calls: list[list[int]], contexts: list[Context], ends: list[object]) -> None:
    """Check the invariants of all outcomes."""
    seen = [item for call in calls for item in call]
    assert len(set(seen)) == len(seen), "two calls received the same item"
    assert all(len(call) <= SIZE for call in calls), "a call is larger than the batch"
    for number, (plan, end) in enumerate(zip(plans, ends, strict=True)):
        if isinstance(end, asyncio.CancelledError):
            assert contexts[number].cancelled, "a job was cancelled without a request"
            mates = next((call for call in calls if number in call), [])
            assert all(contexts[mate].cancelled for mate in mates), "a call was cancelled although others need it"
        elif plan.fails:
            assert isinstance(end, ValueError), end
            assert end.args == (number,), "a job received another's failure"
        else:
            assert end == number * 10, "a job received another's result"
        assert contexts[number].cancelled or number in seen, "no call received an item"


@settings(max_examples=150)
@given(plans=PLANS, work=st.integers(0, 6), linger=st.sampled_from([0.0, 0.001]))
def test_callers_receive_the_outcome_of_their_own_job(plans: list[Plan], work: int, linger: float) -> None:
    asyncio.run(run(plans, Batcher, work, linger))


def three(**changes: Any) -> list[Plan]:
    first = Plan(**{"joins": 0, "cancelled": None, "fails": False, **changes})
    return [first, Plan(0, None, False), Plan(0, None, False)]


@pytest.mark.parametrize(
    ("kind", "plans", "complaint"),
    [
        (Reversed, three(), "another's result"),
        (Reversed, [*three(fails=True)[:2]], "ValueError|another's|10"),
        (Keeping, three(cancelled=1)[:2], "although others need it"),
        (Overfull, [*three(), Plan(0, None, False)], "larger than the batch"),
    ],
)
def test_batcher_mutants_are_caught(kind: type[Batcher], plans: list[Plan], complaint: str) -> None:
    asyncio.run(run(plans, Batcher, 2, 0.05))
    with pytest.raises(AssertionError, match=complaint):
        asyncio.run(run(plans, kind, 2, 0.05))


def test_call_cancelled_before_its_first_step_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """All jobs of a full batch are cancelled in the turn when it starts."""
    monkeypatch.setattr("lockwork.worker.execution.batching._Batch", Noting)
    monkeypatch.setattr(Noting, "unheard", 0)
    asyncio.run(run([Plan(0, 1, False)] * SIZE, Batcher, 2))
    assert Noting.unheard == SIZE


async def test_urgent_call_ends_the_batch_linger() -> None:
    calls: list[list[int]] = []
    lw = Lockwork("redis://127.0.0.1:1", patience=0)

    @lw.task(batch=5)
    async def together(items: list[int]) -> list[int]:
        calls.append(list(items))
        return items

    nothing: Any = None
    places: Any = Places()
    context = ExecutionContext(lw.registry, lw.config, nothing, nothing, places, nothing)
    batcher = Batcher(together, Batching(5, 60.0), context, copy_context(), lambda: False)
    contexts: list[Any] = [Context(number) for number in range(3)]
    joining = [asyncio.ensure_future(batcher.join(contexts[number], number)) for number in range(2)]
    await asyncio.sleep(0)
    assert calls == []
    batcher.hurry()
    async with asyncio.timeout(5):
        assert await asyncio.gather(*joining) == [0, 1]
        # a job that joins later does not wait either
        assert await batcher.join(contexts[2], 2) == 2
    assert calls == [[0, 1], [2]]
