-- Takes away jobs that wait, some at a time; what runs, and what is dead, is left.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, tries, tries, dead, errors, watch, log of this operation
-- ARGV: step, window ms, how many of each place at most: of each priority, and of the scheduled ones
-- Reply: {taken from each of the four places, how many of those were jobs}
-- Invariants: who waits for such a job's result is told that there will be none; nobody else pays for that
-- include: now
-- include: step
-- include: push
local tries, dead, errors, watch = KEYS[10], KEYS[12], KEYS[13], KEYS[14]
local results, older = KEYS[8], KEYS[9]
-- include: finish
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
local BYTES = 4194304 -- what one call frees, or a little more: a large record takes its time
local JOBS = 500
local reply, ids, bytes = {0, 0, 0, 0, 0}, {}, 0

for place = 1, 4 do
  local key, most = KEYS[1 + place], math.min(ARGV[2 + place], JOBS - #ids)
  if most > 0 and bytes <= BYTES then
    local found = place < 4 and redis.call('LRANGE', key, 0, most - 1) or redis.call('ZRANGE', key, 0, most - 1)
    for _, id in ipairs(found) do
      if bytes > BYTES then break end
      bytes = bytes + redis.call('HSTRLEN', jobs, id)
      ids[#ids + 1] = id
      reply[place] = reply[place] + 1
    end
    if reply[place] > 0 and place < 4 then redis.call('LPOP', key, reply[place]) end
    if reply[place] > 0 and place == 4 then redis.call('ZREM', key, unpack(found, 1, reply[place])) end
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
  reply[5] = redis.call('HDEL', jobs, unpack(ids))
  redis.call('HDEL', tries, unpack(ids))
  if reply[5] > 0 then redis.call('HINCRBY', stats, 'cleared', reply[5]) end
  conclude(outcomes, tonumber(ARGV[2]))
end
return keep(reply)
