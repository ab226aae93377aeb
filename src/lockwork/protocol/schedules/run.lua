-- Enqueues a job of a schedule now, independent of its slots.
-- KEYS: <queue/push>, <schedules/schedule>, dead: zset
-- ARGV: name, id, alone: flag
--   id: of the job; alone: the schedule allows no overlap
-- Indexed: stats
-- Reply: {STARTED, id}: enqueued, now or by an earlier try; {OVERLAPS, id}: the job with this id has not ended;
--   {UNKNOWN, ''}: the schedule does not exist
-- Codes: started=1, overlaps=2, unknown=0
-- Invariants: the cursor does not move, so no slot is lost
-- include: now
-- include: queue/push
-- include: schedules/schedule
-- include: schedules/jobs
local known, hash = find(name)
if not known then return {UNKNOWN, ''} end
-- a retry: by now, the schedule's last job may be that of a slot
if known[JOB] == id or redis.call('HEXISTS', jobs, id) == 1 or has_result(id) then return {STARTED, id} end
if alone and unended(known[JOB]) then return {OVERLAPS, known[JOB]} end
add(id, redis.call('HGET', hash, 'r' .. name))
enqueue()
known[JOB], known[ENQUEUED] = id, known[ENQUEUED] + 1
save(hash, name, known)
return {STARTED, id}
