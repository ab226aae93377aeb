-- Enqueues jobs with unique names. One whose name is taken is not enqueued: it meets the job that has the name.
-- KEYS: <push>, <groups>, tries: hash, job_notes: hash, dead: zset, expiry: zset, unique: hash, unique_ends: zset,
--   timelines: hash
-- ARGV: again: flag, limit, taken_ms: number, meaning, longest: number, (id, record, delay)
--   again: an earlier try may have been applied; limit: ms until they expire (negative: at that moment; '': never)
--   taken_ms: ms for which a name is taken (0: until its job begins or ends, as its header says)
--   meaning: of a taken name: k (nothing), r (the job that has it, if it waits, becomes this one; without a delay it stays
--     where it is), b (the same, and it is due after the delay)
--   longest: ms from the first call after which it is due at the latest (0: any); delay: as jobs_push
-- Reply: per job the id of the job that has the name, and n (new), k (nothing was changed), r (it became this one) or m (and
--   was moved); or {waiting, size} when the queue has no room for the new ones, and nothing was done
-- Invariants: a name has one job; a job that runs or has ended stays as it is; it is in one place before and after
-- include: now
-- include: push
-- include: groups
local today = math.floor(now / 1000)
-- The job that has the name, and when it is due at the latest.
local function holder_of(name)
  local id, latest = name_holder(name, dead)
  -- one that should have begun by now will not run
  if id and tonumber(redis.call('ZSCORE', expiry, id) or today + 1) > today then return id, latest end
  local owner, upto = string.match(redis.call('HGET', unique, name) or '', '^(%S+) (%d+)$')
  if owner and tonumber(upto) > today then return owner end
end

local named = {}
local function met(record)
  local _, name = unique_name(record)
  local taken = named[name] or holder_of(name)
  named[name] = true
  return taken
end

local no_room = refused(FIRST, again, dead, met)
if no_room then return no_room end
local args, reply = {}, {}
for at = 1, #ARGV do args[at] = ARGV[at] end
for at = #ARGV, 1, -1 do ARGV[at] = nil end -- jobs are pushed from there

local function take_name(name, id)
  if taken_ms > 0 then
    redis.call('HDEL', groups, 'u ' .. name) -- of a job that was deleted by hand
    redis.call('HSET', unique, name, string.format('%s %.0f', id, today + taken_ms))
    redis.call('ZADD', unique_ends, today + taken_ms, name)
    for _, key in ipairs({unique, unique_ends}) do
      if redis.call('PTTL', key) < taken_ms + 60000 then redis.call('PEXPIRE', key, taken_ms + 60000) end
    end
  else
    redis.call('HSET', groups, 'u ' .. name, longest > 0 and string.format('%s %.0f', id, today + longest) or id)
  end
end

-- A job of ours is the one that has the name.
local function become(id, record, delay, latest)
  local waits, stands = redis.call('ZSCORE', due, id), redis.call('HEXISTS', groups, '@ ' .. id) == 1
  local old = redis.call('HGET', jobs, id)
  if meaning == 'k' or not old or not (waits or stands) then return 'k' end
  local other = string.match(old, '^[^;]*') ~= string.match(record, '^[^;]*')
  local at = (delay ~= '0' or meaning == 'b') and math.max(today, moment(delay)) or nil
  if at and latest then at = math.max(today, math.min(at, latest)) end
  redis.call('HSET', jobs, id, record)
  weigh(record)
  -- what was written down, and tried, was another call's
  redis.call('HDEL', tries, id)
  redis.call('HDEL', timelines, id)
  redis.call('HDEL', job_notes, id)
  if limit ~= '' then redis.call('ZADD', expiry, moment(limit), id) else redis.call('ZREM', expiry, id) end
  if other or at then
    leave_group_queue(id, old)
    if at or stands then redis.call('ZADD', due, at or today, id) end
    -- its key may have gone to another; a worker that sleeps until it is due need not learn that this is later now
    local _, key = header(old)
    if key or stands or (at and at < tonumber(waits)) then wake(1) end
  end
  return at and 'm' or 'r'
end

-- Enqueue it, unless its name is taken.
local function come(id, record, delay)
  if again then
    local ended = redis.call('HEXISTS', results[1], id) == 1 or redis.call('HEXISTS', results[2], id) == 1
    if ended or redis.call('HEXISTS', jobs, id) == 1 then return id, 'n' end
  end
  local _, name = unique_name(record)
  local holder, latest = holder_of(name)
  if holder then return holder, become(holder, record, delay, latest) end
  if limit ~= '' then redis.call('ZADD', expiry, moment(limit), id) end
  ARGV[1], ARGV[2], ARGV[3] = id, record, delay
  push(1, again)
  take_name(name, id)
  return id, 'n'
end

for at = FIRST, #args, STRIDE do
  local id, change = come(args[at], args[at + 1], args[at + 2])
  reply[#reply + 1] = id
  reply[#reply + 1] = change
end
local over = redis.call('ZRANGEBYSCORE', unique_ends, '-inf', today, 'LIMIT', 0, 500)
if #over > 0 then
  redis.call('HDEL', unique, unpack(over))
  redis.call('ZREM', unique_ends, unpack(over))
end
return reply
