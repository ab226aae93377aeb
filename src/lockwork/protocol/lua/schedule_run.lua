-- Enqueues the job of a schedule now, whatever its slots are.
-- KEYS: <push>, <schedule>, dead: zset
-- ARGV: name, id, alone: flag
--   id: of the job; alone: the schedule allows no overlap
-- Reply: {1, id} enqueued, now or by an earlier try; {2, id} the job of that id has not ended; {0, ''} there is no such schedule
-- Invariants: the cursor stays where it is: no slot is lost by it
-- include: now
-- include: push
-- include: schedule
-- include: schedule_jobs
local known = load(name)
if not known then return {0, ''} end
-- sent again; by now, a slot's job may be the schedule's last one
local before = redis.call('HEXISTS', jobs, id) + redis.call('HEXISTS', results[1], id) + redis.call('HEXISTS', results[2], id) > 0
if known[JOB] == id or before then return {1, id} end
if alone and unended(known[JOB]) then return {2, known[JOB]} end
add(id, name)
enqueue()
known[JOB], known[ENQUEUED] = id, known[ENQUEUED] + 1
save(name, known)
return {1, id}
