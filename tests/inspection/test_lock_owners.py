"""Names of lock owners, and the job in a request's text."""

from __future__ import annotations

import pytest

from lockwork.inspection.lock_owners import OwnerNames, owner_name
from lockwork.protocol.locks.overview import Holder, LockHolder, LockSnapshot, Overview, described, job_text, read

OWNER = "web/7/abc:1:lockwork-slot"


@pytest.mark.parametrize("tags", [(), ("night", "a;b,c")])
@pytest.mark.parametrize("id", ["P7RSMfoiXM2K9_cYUq", "P7CnN--TtWbnOCdD.00001", "a;b,c@2026-11-27T10:00:00Z"])
@pytest.mark.parametrize("task", ["send", "shop;orders,all"])
def test_job_of_a_request_is_read_as_it_was_written(id: str, task: str, tags: tuple[str, ...]) -> None:
    holder = read(OWNER, described("web/7/abc.1f", tags, job_text(id, task)))
    assert (holder.job, holder.task, holder.tags) == (id, task, tags)
    assert owner_name(holder) == f"web/7 job {id} ({task})"


@pytest.mark.parametrize(
    "request_text", ["", "web/7/abc.1f", "web/7/abc.1f;night", "a;b;c", "a;;,", "~web/7/abc.1f;;send,P7"]
)
def test_request_without_a_job_is_read(request_text: str) -> None:
    holder = read(OWNER, request_text)
    assert holder.job is None
    assert owner_name(holder) == "web/7 lockwork-slot"


def test_owner_of_another_program_is_named_by_its_text() -> None:
    assert owner_name(read("someone's token")) == "someone's token"


def test_owners_with_the_same_name_are_numbered() -> None:
    names = OwnerNames(Overview((lock(OWNER), lock("web/7/abc:2:lockwork-slot"), lock("web/8/abc:3:other")), (), ()))
    assert names(OWNER) == "web/7 lockwork-slot #1"
    assert names("web/8/abc:3:other") == "web/8 other"


def test_asyncio_tasks_of_one_job_are_numbered() -> None:
    job = job_text("P7", "send")
    names = OwnerNames(Overview((lock(OWNER, f"r;;{job}"), lock("web/7/abc:2:child", f"r;;{job}")), (), ()))
    assert names(OWNER) == "web/7 job P7 (send) #1"


def lock(owner: str, request: str = "r") -> LockSnapshot:
    holder: Holder = read(owner, request)
    return LockSnapshot("k", "lock", "n", 1, (LockHolder(holder, request, 1, 1, 1.0, 1.0),), (), 0, 0, 0.0)
