"""Jobs that go to sleeping workers along with their wake-ups, against their model; and builds that it must notice."""

from __future__ import annotations

import pytest

from lockwork.protocol import messages
from model.bench import check, check_caught
from model.queues.offers_machine import CancelledOffers, Offers, OpenOffers
from simulation.server import Build, Server

_OFFER = "parts/offer"
_FENCE = "redis.call('HSET', stats, 'fence', string.format('%.0f', fence))"
_USED = "if -since <= known and not awake"
_SLEEPERS = "idle_workers, 0, '+inf', 'LIMIT'"


@pytest.mark.parametrize("machine", [Offers, OpenOffers])
def test_offers_match_their_model(simulated: Server, machine: type[Offers]) -> None:
    check(machine, simulated, Build())


def test_offers_of_jobs_that_are_cancelled(simulated: Server) -> None:
    check(CancelledOffers, simulated, Build())


def test_an_offer_that_is_not_cancelled_is_caught(simulated: Server) -> None:
    lost = Build("forwarded jobs are not cancelled", (("jobs_pass", "if record and mark and", "if false and"),))
    check_caught(CancelledOffers, simulated, lost)


def test_worker_that_believes_any_seal_is_caught(simulated: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a stranger who has heard an offer can run jobs of its own making."""
    monkeypatch.setattr(messages, "opened", lambda _secret, _ticket, text: text.partition(" ")[2] or None)
    check_caught(OpenOffers, simulated, Build("any seal counts"))


@pytest.mark.parametrize(
    "twin",
    [
        Build("a busy worker is offered a job", ((_OFFER, "channel) or -1) < 0", "channel) or 1) < 0"),)),
        Build("an offer overtakes those that wait", ((_OFFER, "redis.pcall('LLEN', ready) ~= 0 or", ""),)),
        Build("an offer to one that runs others", ((_OFFER, " or redis.pcall('HLEN', run) ~= 0", ""),)),
        Build("an offer to a session that is over", ((_OFFER, "<= now / 1000", "< 0"),)),
        Build("large ones are offered", ((_OFFER, " or #record > LARGE", ""),)),
        Build("an offer without a listener", ((_OFFER, "not listens(channel) then", "false then"),)),
        Build("an offer leaves no mark", ((_OFFER, "'ZADD', idle_workers, -fence", "'ZREM', idle_workers"),)),
        Build("an offer without a lease", ((_OFFER, "redis.call('HSET', run, id, token)", ""),)),
        Build("an offer that is not counted", ((_OFFER, "count_leased(1)", ""),)),
        Build("a received offer is sent again", (("jobs_reserve", "local offered =", "local known, offered = 0,"),)),
        Build(
            "a worker that forwards an offer keeps the job",
            (("jobs_pass", "if given > known then", "if false then"),),
        ),
        Build("forwarded jobs stay counted", (("jobs_pass", "count_freed(1)", ""),)),
        Build("forwarded jobs go last", (("jobs_pass", "'LPUSH'", "'RPUSH'"),)),
        Build(
            "a worker with an offer is woken",
            (("parts/wake", "idle_workers, 0, last", "idle_workers, '-inf', last"),),
        ),
        Build("a worker that idles forgets offers", (("jobs_reserve", "0, now - GONE", "'-inf', now - GONE"),)),
        Build("marks of the dead stay", (("jobs_recover", "redis.call('ZREM', idle_workers, channel)", ""),)),
        Build("an offer that was not received counts", (("jobs_recover", "== offered then", "== -1 then"),)),
        Build("an offer that began does not count", (("jobs_recover", "== offered then", "then"),)),
        Build("the enqueuer gets no worker for the offer", (("job_push", "or taker or 1", "or 1"),)),
        Build("a second offer before an answer", ((_OFFER, "channel) or -1) < 0", "channel) or -1) == -1"),)),
        Build("its fence is forgotten", ((_OFFER, _FENCE, ""),)),
        Build("a worker that used its offer wakes others", (("jobs_pass", _USED + " then return 0 end", ""),)),
        Build("a worker without a free slot keeps its timer", (("jobs_pass", _USED, "if -since <= known"),)),
    ],
    ids=lambda twin: twin.name,
)  # fmt: skip
def test_a_broken_offer_is_caught(simulated: Server, twin: Build) -> None:
    check_caught(OpenOffers, simulated, twin)


@pytest.mark.parametrize(
    "twin",
    [
        Build("an offer in a pause", ((_OFFER, " or at_rest()", ""),)),
        Build("an offer beyond the rate", ((_OFFER, " or rate_jobs", ""),)),
        Build("resume forgets offers", (("queue_set", _SLEEPERS, _SLEEPERS.replace("0", "'-inf'")),)),
    ],
    ids=lambda twin: twin.name,
)  # fmt: skip
def test_an_offer_beyond_a_limit_is_caught(simulated: Server, twin: Build) -> None:
    check_caught(Offers, simulated, twin)
