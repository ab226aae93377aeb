"""Mutants of the lock with every option."""

from __future__ import annotations

from simulator.server import Build

_GRANT = "local fence, ends = grant(owner, request, lease, held_fence)"
_SAME = "fence = tonumber(held_fence) redis.call('HSET', lock, 'f', fence)"
_NOT_ON = "redis.call('HSET', lock, 'd', 0)"
_MINE = "if holder == owner and holder_request == request and deadline > now then"
_MINIMUM = "if at_least and left_us > 0 then"
_LEAVES = "    remove_request(request)\n    save_waiters()\n    return"
_PLACES, _RECEIVERS = "parts/waiters", "parts/receivers"
MUTANTS = (
    Build("adoption without a higher fence", (("locks/adopt", _GRANT, f"{_GRANT} {_SAME}"),)),
    Build(
        "adopted twice", (("locks/adopt", "holder ~= old_owner or held_fence ~= old_fence or deadline", "deadline"),)
    ),
    Build("adopted under an old fence", (("locks/adopt", "or held_fence ~= old_fence or", "or"),)),
    Build("adopted too late", (("locks/adopt", "or deadline <= now then return", "then return"),)),
    Build("an adopter's own call sent again is refused", (("locks/adopt", _MINE, "if false then"),)),
    Build("adoption does not notify the waiters", (("locks/adopt", "if tail then notify", "if false then notify"),)),
    Build(
        "adoption loses the waiters", (("locks/adopt", "\nset_expiry(ends, fence)", "\nredis.call('HDEL', lock, 't')"),)
    ),
    Build("force ends any grant", (("locks/force", "held_fence ~= fence", "false"),)),
    Build(
        "force release skips the waiters",
        (("locks/force", "release_to_next(held_fence, deadline, head, tail)", _NOT_ON),),
    ),
    Build("force ends an expired grant", (("locks/force", " or tonumber(deadline or 0) <= now then", " then"),)),
    Build("force sent again reports no holder", (("locks/force", "return again and 1 or 0", "return 0"),)),
    Build("a minimum is forgotten", (("locks/release", _MINIMUM, "if false then"),)),
    Build("a minimum without a release in time", (("locks/release", _MINIMUM, "if at_least then"),)),
    Build("a minimum is its releaser's", (("locks/release", "'o', '', 'r', '', 'd'", "'d'"),)),
    Build(
        "a minimum from the beginning", (("locks/release", "now + at_least * 1000", "held_fence + at_least * 1000"),)
    ),
    Build("requested without a sticky holder", (("locks/parts/ask", "'^~([^;]*)%.'", "'^~?([^;]*)%.'"),)),
    Build("tags are taken for a process", (("locks/parts/ask", "'^~([^;]*)%.'", "'^~(.*)%.'"),)),
    Build(
        "another request of an owner is its grant",
        (("locks/parts/ask", "if holder_request == request then", "if true then"),),
    ),
    Build(
        "a new request keeps its old place in the queue", (("locks/parts/ask", "      remove_request(request)\n", ""),)
    ),
    Build("a caller that does not wait stays queued", (("locks/parts/ask", _LEAVES, "    return"),)),
    Build("a renewal shortens", (("locks/renew", "if now + lease * 1000 >= deadline then", "if true then"),)),
    Build("only the first is renewed", (("locks/renew", "deadline > now then", "index == 1 and deadline > now then"),)),
    Build(
        "withdrawn grant is not handed over",
        (("locks/parts/withdraw", "release_to_next(fence, deadline, head, tail)", _NOT_ON),),
    ),
    Build("an owner withdraws all its requests", (("locks/parts/withdraw", "holder_request == request and", ""),)),
    Build(
        "an unsubscribed waiter counts as notified", (("locks/parts/waiters", "and is_subscribed(waiter.channel)", ""),)
    ),
    Build(
        "a transfer for a whole lease", (("locks/parts/ask", "claim_ms = math.min(lease, claim)", "claim_ms = lease"),)
    ),
    Build(
        "the second looks as late as the last", (("locks/parts/checks", "math.min(ahead * 50, LATE_MS)", "LATE_MS"),)
    ),
    Build("a place ends late", ((_PLACES, "if waiter.ends_at_us > now then\n", "if waiter.ends_at_us >= now then\n"),)),
    Build("the dead are handed the lock", ((_PLACES, "if can_receive(waiter) then return", "if true then return"),)),
    Build(
        "never grants to a waiter that was unsubscribed", ((_RECEIVERS, "(waiter.was_unsubscribed and", "(false and"),)
    ),
    Build(
        "a waiter that was unsubscribed is handed the lock forever",
        ((_RECEIVERS, "waiter.next_check_us + CHECK_DELAY_MS * 1000 > now_us", "true"),),
    ),
    Build(
        "a whole claim for waiters without a subscription",
        (("locks/parts/waiters", "claim_ms(waiter, waiter.claim_ms, now)", "waiter.claim_ms"),),
    ),
    Build("a waiter that polls counts as silent", ((_PLACES, "waiters.unresponsive[channel] = nil", ""),)),
    Build("a skipped waiter is removed", ((_PLACES, "if ticket < waiters.head then", "if false then"),)),
    Build(
        "a claim has no effect",
        (("locks/parts/ask", "tonumber(claim_ends) == tonumber(stored_deadline or nil)", "claim_ends"),),
    ),
    Build(
        "only a waiter that polls is first again",
        ((_PLACES, "math.min(waiters.head, waiters.first_skipped or waiters.head)", "waiters.head"),),
    ),
    Build("passed over for ever", ((_PLACES, "if had_skipped then remove_expired_skipped() end", ""),)),
    Build(
        "a release grants to an unsubscribed process",
        (("locks/release", " and has_subscriber(waiter.channel) ~= false then", " then"),),
    ),
    Build("a release grants to an expired waiter", (("locks/release", "waiter.ends_at_us > now and ", ""),)),
    Build(
        "a release overtakes skipped waiters",
        (("locks/release", "not at_least and not first_skipped and not unresponsive", "not at_least"),),
    ),
    Build("a release ignores its minimum", (("locks/release", "left_us > 0 and not at_least and", "left_us > 0 and"),)),
    Build(
        "a caller joins after skipped waiters",
        (("locks/acquire", "~= '~' and not first_skipped and not unresponsive", "~= '~'"),),
    ),
    Build(
        "a caller joins a lock whose lease has ended",
        (("locks/acquire", "not ticket and ends > now and", "not ticket and"),),
    ),
    Build(
        "a caller joins without asking a sticky holder",
        (("locks/acquire", " and string.sub(holder_request, 1, 1) ~= '~'", ""),),
    ),
)
