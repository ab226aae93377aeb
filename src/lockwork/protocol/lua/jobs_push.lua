-- Enqueues jobs; ids that are known already are kept as they are.
-- KEYS: <push>, dead
-- ARGV: again: flag, some: flag, (id, record, delay)
--   again: an earlier try may have been applied; some: those that come first if there is no room for all
--   delay: ms (negative: due at that moment)
-- Reply: how many are new; or, when the queue has no room for all of them, {waiting, size}, and nothing was enqueued; with `some`
--   {waiting, size, how many of the first are enqueued}
-- Invariants: a job is in one place: a ready list or the due set; idle workers are woken
-- include: now
-- include: push
local no_room, first = refused(FIRST, again, dead)
if not no_room then return push(FIRST, again) end
if not some then return no_room end
return {no_room[1] + push(FIRST, again, first), no_room[2], first}
