-- What the scripts that handle a single job share; the session names are in ARGV[named] and after, their run hashes in KEYS[25] and after;
-- the last key is: flows
-- include: push
local tries, notes, dead, errors, watch = KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local results, older = KEYS[8], KEYS[9]
local expiry, withdrawn, kept, workers = KEYS[15], KEYS[16], KEYS[17], KEYS[18]
-- include: finish
touch('ZCARD', 15, 15)
touch('SCARD', 16, 16)
touch('HLEN', 17, 17)
touch('ZCARD', 18, 18)
local lines, books, sleeping, rings = KEYS[19], KEYS[20], KEYS[21], 22
-- include: lines
local flows = KEYS[#KEYS]
redis.call('HLEN', flows)
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
-- include: leave
-- include: flows
-- include: flow_waits

-- Where a job is that has a record: dead, scheduled, ready (or in line), or running, then its session; or look, then all
-- sessions, when it is in none of the named ones and some were not named.
local function place(id, named)
  if redis.call('ZSCORE', dead, id) then return 'dead' end
  if redis.call('ZSCORE', due, id) then return 'scheduled' end
  if redis.call('HEXISTS', books, '@ ' .. id) == 1 then return 'ready' end
  local known = {}
  for at = named, #ARGV do
    known[ARGV[at]] = true
    if redis.call('HEXISTS', KEYS[25 + at - named], id) == 1 then return 'running', ARGV[at] end
  end
  local sessions = redis.call('ZRANGE', workers, 0, -1)
  for _, session in ipairs(sessions) do
    if not known[session] then return 'look', sessions end
  end
  return 'ready'
end

local function schedule(id, wait)
  redis.call('ZADD', due, moment(wait), id)
  if redis.call('ZRANK', due, id) == 0 then wake(1) end
end

-- Let a job that stands nowhere, or whose id stands in its ready list as void, run as soon as it may.
local function line_up(id, record)
  if not plain(record) then return schedule(id, 0) end
  -- where it is void, it takes that place again
  if redis.call('SREM', withdrawn, id) == 0 then redis.call('RPUSH', ready_key(record), id) end
  wake(1)
end
