-- Enqueues jobs; ids that are known already are kept as they are.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, dead
-- ARGV: again (1: an earlier try may have been applied), then for each job: id, record, delay ms (negative: due at that moment)
-- Reply: how many are new; or {waiting, size} when the queue has no room for all of them, and nothing was enqueued
-- Invariants: a job is in one place: a ready list or the due set; idle workers are told
-- include: now
-- include: push
return refused(2, ARGV[1] == '1', KEYS[10]) or push(2, ARGV[1] == '1')
