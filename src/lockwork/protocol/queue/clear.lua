-- Deletes waiting jobs, in bounded batches. Running and dead jobs stay.
-- KEYS: <queue/push>, <queue/finish>, <queue/groups>, <queue/suspects>, job_notes: hash, expiry: zset, void: set, flows: hash; log
-- ARGV: step: number, window: number, (most)
--   window: ms; most: limit per priority, and for scheduled jobs, jobs of groups and suspects
-- Out of memory: goes on
-- Reply: {entries deleted from each of the six places, jobs among these entries}
-- Invariants: callers that wait for the result of a deleted job receive its end; no other call bears this cost
-- include: now
-- include: step
-- include: queue/push
-- include: queue/finish
-- include: queue/groups
-- include: flows/ended
-- include: queue/suspects
local JOBS = 500
local counts, ids, looked, bytes, deleted = {0, 0, 0, 0, 0, 0}, {}, 0, 0, 0

-- Return the first jobs in a place.
local function found_in(place, most)
  if place < 4 then return redis.call('LRANGE', ready[place], 0, most - 1) end
  if place == 4 then return redis.call('ZRANGE', due, 0, most - 1) end
  if place == 6 then return redis.call('ZRANGE', suspects, 0, most - 1) end
  local found = redis.call('ZRANGE', group_queue, 0, most - 1)
  for at, entry in ipairs(found) do found[at] = string.match(entry, ' ([^ ]+)$') end
  return found
end

for place = 1, 6 do
  local most = math.min(ARGV[FIRST + place - 1], JOBS - looked)
  if most > 0 and bytes <= BYTES then
    local found = found_in(place, most)
    for _, id in ipairs(found) do
      if bytes > BYTES then break end
      counts[place] = counts[place] + 1
      looked = looked + 1
      -- a void entry is no job
      if place > 3 or redis.call('SREM', void, id) == 0 then
        ids[#ids + 1] = id
        bytes = bytes + redis.call('HSTRLEN', jobs, id)
      end
      if place == 6 then clear_suspect(id) end
      if place > 3 then
        local record = redis.call('HGET', jobs, id)
        if place == 5 and record and plain(record) then
          task_limits.leave(id, record)
        elseif record and not plain(record) then
          leave_group_queue(id, record)
          free_name(id, record)
          flow_ended(id, record, 'c', '')
        end
      end
    end
    if counts[place] > 0 and place < 4 then redis.call('LPOP', ready[place], counts[place]) end
    if counts[place] > 0 and place == 4 then redis.call('ZREM', due, unpack(found, 1, counts[place])) end
  end
end

if #ids > 0 then
  local outcomes = {}
  if redis.call('EXISTS', watch) == 1 then
    for at, channels in ipairs(redis.call('HMGET', watch, unpack(ids))) do
      if channels then
        outcomes[#outcomes + 1] = ids[at]
        outcomes[#outcomes + 1] = 'f{"type":"QueueCleared","message":"its queue was cleared before it ran"}'
      end
    end
  end
  deleted = redis.call('HDEL', jobs, unpack(ids))
  redis.call('HDEL', tries, unpack(ids))
  forget_timelines(ids)
  unpark(ids, true)
  redis.call('HDEL', job_notes, unpack(ids))
  redis.call('ZREM', expiry, unpack(ids))
  if deleted > 0 then redis.call('HINCRBY', stats, 'cleared', deleted) end
  carry_on(outcomes, window)
  store_outcomes(outcomes, window)
  save_history()
end
counts[#counts + 1] = deleted
return keep(counts)
