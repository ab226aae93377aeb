-- Enqueues jobs. Known ids do not change.
-- KEYS: <queue/push>, dead
-- ARGV: again: flag, some: flag, (id, record, delay)
--   again: an earlier try may have been applied; some: if the queue is nearly full, enqueue the leading jobs that fit
--   delay: ms (negative: a point in time)
-- Indexed: stats
-- Reply: number of new jobs. If they do not fit, {waiting, size}, and nothing was enqueued; with `some`
--   {waiting, size, number of leading jobs that are enqueued}
-- Invariants: a job is in one place: a ready list or the due set; idle workers are woken
-- include: now
-- include: queue/push
local no_room, first, waiting, size = check_room_for_new(FIRST, again, dead)
if not no_room then return push(FIRST, again) end
if not some then return no_room end
return {waiting + push(FIRST, again, first), size, first}
