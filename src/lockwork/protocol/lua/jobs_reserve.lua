-- Leases up to `want` jobs to a worker session, after moving the due ones to their ready list.
-- KEYS: jobs, ready:0, ready:1, ready:2, due, idle, stats, results:0, results:1, tries, run, workers,
--   lines, books, sleeping, ring:0, ring:1, ring:2
-- ARGV: again, want, request, session, channel (to be woken on when nothing was ready; '' for none)
-- Reply: {state, fence, ms until the next due job or -1, then per job: id, token, record}; state 0: the session is over
-- Invariants: a job leaves its ready list or line and enters the session's run hash in one step; a token is never given
--   twice; a key has one job at a time, a group no more than its limit
-- include: now
-- include: push
local tries, run, workers = KEYS[10], KEYS[11], KEYS[12]
local lines, books, sleeping, rings = KEYS[13], KEYS[14], KEYS[15], 16
touch('HLEN', 10, 11)
touch('ZCARD', 13, 13)
touch('HLEN', 14, 14)
touch('ZCARD', 15, 15)
touch('LLEN', 16, 18)
-- include: lines
local want, request = tonumber(ARGV[2]), ARGV[3]
local reply = {1, now, -1}

if not redis.call('ZSCORE', workers, ARGV[4]) then return {0, now, -1} end

local function lease(id, attempt, record, leased)
  local token = string.format(plain(record) and '%d %.0f %s' or '%d* %.0f %s', attempt, now, request)
  leased[#leased + 1] = id
  leased[#leased + 1] = token
  reply[#reply + 1] = id
  reply[#reply + 1] = token
  reply[#reply + 1] = record
end

if ARGV[1] == '1' then
  -- the reply of an earlier try was lost: what it leased is in the run hash under this request
  local held = redis.call('HGETALL', run)
  for at = 1, #held, 2 do
    if string.match(held[at + 1], '%S+$') == request then
      local record = redis.call('HGET', jobs, held[at])
      reply[#reply + 1] = held[at]
      reply[#reply + 1] = held[at + 1]
      reply[#reply + 1] = record
    end
  end
  if #reply > 3 then return reply end
end

local today = math.floor(now / 1000)
local ripe = redis.call('ZRANGEBYSCORE', due, '-inf', today, 'LIMIT', 0, math.max(want, 100))
if #ripe > 0 then
  local records = redis.call('HMGET', jobs, unpack(ripe))
  for at, id in ipairs(ripe) do
    local record = records[at]
    if record and plain(record) then
      redis.call('RPUSH', ready_key(record), id)
    elseif record then
      admit(id, record)
    end
  end
  redis.call('ZREM', due, unpack(ripe))
end

local left = want
local retried = redis.call('EXISTS', tries) == 1

local function lease_all(ids)
  local records = redis.call('HMGET', jobs, unpack(ids))
  local counts = retried and redis.call('HMGET', tries, unpack(ids))
  local leased = {}
  for at, id in ipairs(ids) do
    -- no record: the job was withdrawn while it waited
    if records[at] then lease(id, (counts and tonumber(counts[at]) or 0) + 1, records[at], leased) end
  end
  if #leased > 0 then redis.call('HSET', run, unpack(leased)) end
  left = left - #leased / 2
end

local groups = redis.call('EXISTS', lines, sleeping) > 0
if groups then wake_groups() end
for level = 2, 4 do
  if groups then
    -- the jobs without a group are one more in the round
    local turns = redis.call('LLEN', KEYS[rings + level - 2])
    local share = redis.call('LLEN', KEYS[level]) == 0 and left or math.ceil(left * turns / (turns + 1))
    local ids = take_turns(level - 2, share)
    if #ids > 0 then lease_all(ids) end
  end
  while left > 0 do
    local ids = redis.call('LPOP', KEYS[level], math.min(left, 1000))
    if not ids then break end
    lease_all(ids)
  end
  if groups and left > 0 then
    local ids = take_turns(level - 2, left)
    if #ids > 0 then lease_all(ids) end
  end
end

local next_due = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
if next_due[2] then reply[3] = math.max(0, tonumber(next_due[2]) - today) end
local next_group = groups and redis.call('ZRANGE', sleeping, 0, 0, 'WITHSCORES') or {}
if next_group[2] then
  local pause = math.max(0, tonumber(next_group[2]) - today)
  reply[3] = reply[3] < 0 and pause or math.min(reply[3], pause)
end
if #reply == 3 and ARGV[5] ~= '' then
  redis.call('ZADD', idle, now, ARGV[5])
elseif #ripe > 0 and left <= 0 then
  wake(#ripe)
end
return reply
