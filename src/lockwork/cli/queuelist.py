"""Which queues a worker is to serve, and how they share it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

import msgspec

from lockwork.app.lockwork import Lockwork
from lockwork.errors import ConfigError
from lockwork.logs import Log
from lockwork.protocol.keys import base_queue, checked_queue
from lockwork.worker.settings import WorkerOptions

log: Log = Log("lockwork.worker")

_HEAVIEST = 1000
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?", re.IGNORECASE)
_WEIGHT = re.compile(r"\d{1,4}")


def read_queues(texts: Iterable[str]) -> dict[str, int | None]:
    """Read `a,b:5`, several times if need be; the weight is None where none is given. Raises ConfigError."""
    found: dict[str, int | None] = {}
    for text in ",".join(texts).split(",") if texts else ():
        # a queue's name may hold a colon; what reads as a number after the last one is meant as a weight
        name, colon, weight = text.strip().rpartition(":")
        if not colon or not _NUMBER.fullmatch(weight):
            name, weight = text.strip(), ""
        if not name:
            raise ConfigError(f"--queues has an empty name in it: {','.join(texts)!r}; it is NAME or NAME:WEIGHT,...")
        if name in found:
            raise ConfigError(f"--queues names {name!r} twice")
        if weight and not (_WEIGHT.fullmatch(weight) and 1 <= int(weight) <= _HEAVIEST):
            raise ConfigError(
                f"the weight of queue {name!r} must be a whole number from 1 to {_HEAVIEST}, not {weight:.80}"
            )
        found[checked_queue(name)] = int(weight) if weight else None
    return found


def queues_of(app: Lockwork, options: WorkerOptions, named: dict[str, int | None]) -> WorkerOptions:
    """Complete the options by the queues that were named, or by all of the app's; raises ConfigError."""
    known, partitions = app.registry.queues(), app.config.partitions
    for name in partitions.counts:
        if name not in known:
            hint = _meant(name, known)
            log.warning("queue %r shall have partitions, but no task of %s belongs to it%s", name, options.app, hint)
    if not named:
        if not known:
            raise ConfigError(
                f"{options.app} has no tasks: import the modules that define them in its module, or give --queues"
            )
        return msgspec.structs.replace(options, queues=known, weights=[1] * len(known) if len(known) > 1 else None)
    for name in named:
        whole = base_queue(name)
        if whole not in known:
            log.warning("no task of %s belongs to queue %r%s", options.app, name, _meant(name, known))
        elif whole != name and whole in named and name in partitions.names(whole):
            raise ConfigError(f"--queues names {name!r} twice: it is one of the partitions of {whole!r}")
        elif whole != name and name not in partitions.names(whole):
            log.info("nothing is enqueued to %r by this app: what is left there is worked off", name)
    weights = list(named.values())
    shares = None if weights.count(None) == len(weights) else [weight or 1 for weight in weights]
    return msgspec.structs.replace(options, queues=list(named), weights=shares)


def _meant(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f": did you mean {close[0]!r}?" if close else ""
