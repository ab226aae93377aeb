-- Enqueues a job of a schedule now, independent of its slots.
-- KEYS: <queue/push>, <schedules/schedule>, dead: zset
-- ARGV: name, id, alone: flag
--   id: of the job; alone: the schedule allows no overlap
-- Indexed: stats
-- Reply: {1, id} enqueued, now or by an earlier try; {2, id} the job with this id has not ended; {0, ''} the schedule
--   does not exist
-- Invariants: the cursor does not move, so no slot is lost
-- include: now
-- include: queue/push
-- include: schedules/schedule
-- include: schedules/jobs
local known = load(name)
if not known then return {0, ''} end
-- a retry: by now, the schedule's last job may be that of a slot
if known[JOB] == id or redis.call('HEXISTS', jobs, id) == 1 or has_result(id) then return {1, id} end
if alone and unended(known[JOB]) then return {2, known[JOB]} end
add(id, name)
enqueue()
known[JOB], known[ENQUEUED] = id, known[ENQUEUED] + 1
save(name, known)
return {1, id}
