-- Enqueues jobs with their callers' own ids. A job whose id is in use is not enqueued.
-- KEYS: <queue/push>, dead: zset, expiry: zset, void: set, long_results: hash, history: hash, history_order: zset
-- ARGV: again: flag, limit, (id, record, delay)
--   again: an earlier try may have been applied; limit: ms until the jobs expire (negative: a point in time; '': never)
--   delay: as in queue/push
-- Indexed: stats
-- Reply: per job n (new) or k (its id is in use); or {waiting, size} if the new jobs do not fit, and nothing changed
-- Invariants: an id is in use while its job has a record or an outcome, except the error of a deleted job; a known job
--   does not change; a new job has nothing of an earlier job with its id
-- include: now
-- include: queue/push
-- include: queue/long_results
-- include: history/ended_job
local seen = {}

-- Return whether a job has the id, whether it is the job of an earlier try of this call, and the outcome of a deleted
-- job with the id.
local function in_use(id, record)
  local known = redis.call('HGET', jobs, id)
  -- the record contains the time of the call
  if known then return true, again and known == record end
  local outcome = long_result(long_results, expiry, id) or find_result(id)
  return outcome and string.sub(outcome, 1, 1) ~= 'f', false, outcome
end

-- Return whether this job is not new, for the room of a full queue.
local function met(record, id)
  local repeated = seen[id]
  seen[id] = true
  return repeated or in_use(id, record)
end

local no_room = check_room_for_new(FIRST, again, dead, met)
if no_room then return no_room end
local new, reply, noted = {}, {}, {}

-- Delete what remains of an earlier job with this id. A result whose own time has ended is never read.
local function forget(id, outcome)
  if outcome then
    redis.call('HDEL', newer_results, id, id .. ' p')
    redis.call('HDEL', older_results, id, id .. ' p')
  end
  forget_ended(id)
  -- this search is slow, but its job was cancelled or deleted while it waited
  if redis.call('SREM', void, id) == 1 then
    for _, list in ipairs(ready) do
      if redis.call('LREM', list, 1, id) == 1 then break end
    end
  end
end

for at = FIRST, #ARGV, STRIDE do
  local id, record, delay = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local used, own, outcome = noted[id], false, nil
  if not used then used, own, outcome = in_use(id, record) end
  noted[id] = true
  if not used then
    forget(id, outcome)
    if limit ~= '' then redis.call('ZADD', expiry, moment(limit), id) end
    for _, part in ipairs({id, record, delay}) do new[#new + 1] = part end
  end
  reply[#reply + 1] = used and not own and 'k' or 'n'
end
for at = #ARGV, 1, -1 do ARGV[at] = new[at] end -- push() reads ARGV
push(1, false)
return reply
