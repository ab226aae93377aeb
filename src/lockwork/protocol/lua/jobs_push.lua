-- Enqueues jobs; ids that are known already are kept as they are.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, dead
-- ARGV: again (1: an earlier try may have been applied), some (1: those that come first if there is no room for all),
--   then for each job: id, record, delay ms (negative: due at that moment)
-- Reply: how many are new; or, when the queue has no room for all of them, {waiting, size}, and nothing was enqueued; with `some`
--   {waiting, size, how many of the first are enqueued}
-- Invariants: a job is in one place: a ready list or the due set; idle workers are told
-- include: now
-- include: push
local again = ARGV[1] == '1'
local no_room, first = refused(3, again, KEYS[10])
if not no_room then return push(3, again) end
if ARGV[2] == '0' then return no_room end
return {no_room[1] + push(3, again, first), no_room[2], first}
