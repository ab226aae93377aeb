"""Names of lock owners: the job, thread or asyncio task that holds a lock or waits for it."""

from __future__ import annotations

from collections import defaultdict

from lockwork.protocol.locks.overview import Holder, Overview, read


def owner_name(holder: Holder) -> str:
    """Return host, process, and the job; outside of a job, the thread or asyncio task."""
    if not holder.host:
        return holder.owner
    where = f"{holder.host}/{holder.pid}"
    return f"{where} job {holder.job} ({holder.task})" if holder.job else f"{where} {holder.label}".strip()


class OwnerNames:
    """The names of the owners in an overview; owners with the same name are numbered."""

    def __init__(self, overview: Overview) -> None:
        self._holders: dict[str, Holder] = dict(overview.owners)
        for lock in overview.locks:
            self._holders |= {holder.owner: holder for holder in lock.owners}
        self._owners: defaultdict[str, set[str]] = defaultdict(set)
        for holder in self._holders.values():
            self._owners[owner_name(holder)].add(_caller(holder.owner))

    def __call__(self, owner: str) -> str:
        """Return the name of an owner."""
        return owner_name(self.holder(owner)) + self.number(owner)

    def holder(self, owner: str) -> Holder:
        """Return the known data of an owner."""
        return self._holders.get(owner) or read(owner)

    def number(self, owner: str) -> str:
        """Return the owner's number within its process, as " #7", if another owner has the same name; else ""."""
        alike = self._owners.get(owner_name(self.holder(owner)), ())
        return f" #{owner.partition(':')[2].partition(':')[0]}" if len(alike) > 1 else ""


def _caller(owner: str) -> str:
    """Return the thread or asyncio task of an owner: sticky and exported grants add their request to it."""
    return owner.partition("~")[0]
