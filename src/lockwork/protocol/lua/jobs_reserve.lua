-- Leases up to `want` jobs to a worker session, after moving the due ones to their ready list or group queue.
-- KEYS: <push>, <groups>, tries: hash, workers, job_notes, expiry, void; run: hash
-- ARGV: again: flag, want: number, request, session, channel, known: number, seal?
--   again: an earlier try may have been applied; channel: to be woken on when nothing was ready; '' for none
--   known: fence of the last job that the caller has of this queue: what was offered to it since, and has not reached it, is
--     its answer
--   seal: a new secret for sealing offers
-- Reply: {state, fence, ms until the next due job or -1, then per job: id, token, record; or, if it is to be woken, the secret that
--   seals offers to it}; state 0: the session is over; 2: jobs have
--   expired, and nothing is leased before jobs_expire has ended them, or there is nothing to lease, and something to forget; 3: as 1, and last comes {id, note, id, note ...}
-- Invariants: a job leaves its ready list or group queue and enters the session's run hash in one step; a token is never given
--   twice; a key has one job at a time, a group no more than its limit, and so has the queue; nothing is leased while it is paused
-- include: now
-- include: push
-- include: groups
local GONE = 60000000 -- us; an idle worker asks again every few seconds
local noted, any_void = redis.call('HLEN', job_notes) > 0, redis.call('SCARD', void) > 0
local limit, swept = redis.call('ZRANGE', expiry, 0, 0, 'WITHSCORES')[2], false
if limit and tonumber(limit) < 0 then
  -- below 0 is what may be forgotten, when there is nothing else to do
  swept = true
  limit = redis.call('ZRANGEBYSCORE', expiry, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
end
local fence = math.max(now, tonumber(rules[9] or 0) + 1) -- it rises although the clock may be set back
local reply = {1, fence, -1}

if (redis.call('ZSCORE', workers, session) or '0') == '0' then return {0, now, -1} end

-- `tried`: what `tries` has of the job.
local function lease(id, tried, record, leased)
  local special, attempt = not plain(record), '1'
  if special then begun(id, record) end
  if tried then
    local count, crashes = string.match(tried, '^(%d+)(/?%d*)')
    attempt = string.format('%d%s', (count or 0) + 1, crashes or '')
  end
  local token = string.format(special and '%s* %.0f %s' or '%s %.0f %s', attempt, fence, request)
  leased[#leased + 1] = id
  leased[#leased + 1] = token
  reply[#reply + 1] = id
  reply[#reply + 1] = token
  reply[#reply + 1] = record
end

-- Add what was written down of the jobs when they ran before.
local function with_notes()
  local ids = {}
  for at = 4, #reply, 3 do ids[#ids + 1] = reply[at] end
  if not noted or #ids == 0 then return reply end
  local found = {}
  for at, note in ipairs(redis.call('HMGET', job_notes, unpack(ids))) do
    if note then
      found[#found + 1] = ids[at]
      found[#found + 1] = note
    end
  end
  if #found > 0 then
    reply[1] = 3
    reply[#reply + 1] = found
  end
  return reply
end

local offered = -(redis.call('ZSCORE', idle_workers, channel) or 0)
redis.call('ZREM', idle_workers, channel) -- it is awake: it is not to be woken in place of one that sleeps
if again or offered > known then
  -- the reply of an earlier try was lost, or an offer: what was leased by it is in the run hash
  local held = redis.call('HGETALL', run)
  for at = 1, #held, 2 do
    local given, asked = string.match(held[at + 1], ' (%d+) (%S+)$')
    if asked == request or (asked == '~' and tonumber(given) > known) then
      reply[2] = tonumber(given)
      reply[#reply + 1] = held[at]
      reply[#reply + 1] = held[at + 1]
      reply[#reply + 1] = redis.call('HGET', jobs, held[at]) or '' -- deleted by hand
    end
  end
  if #reply > 3 then return with_notes() end
end

local today = math.floor(now / 1000)
if limit and tonumber(limit) <= today then return {2, now, 0} end
local ripe = redis.call('ZRANGEBYSCORE', due, '-inf', today, 'LIMIT', 0, math.max(want, 100))
local heavy = rules[10]
local fits = heavy and allowance()
if heavy then
  for at, id in ipairs(ripe) do
    if not fits(id) then
      ripe = {unpack(ripe, 1, at - 1)} -- the others are moved by later calls
      break
    end
  end
end
if #ripe > 0 then
  local records = redis.call('HMGET', jobs, unpack(ripe))
  for at, id in ipairs(ripe) do
    local record = records[at]
    if record and not plain(record) then
      admit(id, record)
    elseif record and not (any_void and redis.call('SREM', void, id) == 1) then
      -- else it was rescheduled, and still has its place in the list
      redis.call('RPUSH', ready_key(record), id)
    end
  end
  redis.call('ZREM', due, unpack(ripe))
end

local room, wait = may_lease(want)
local budget = want + 2000
local added, unseen = 0, false
local retried = redis.call('EXISTS', tries) == 1
local full = false -- whether the reply is as large as it may be
fits = heavy and allowance(noted and job_notes)

local function lease_all(ids)
  local voids = any_void and redis.call('SMISMEMBER', void, unpack(ids))
  if voids then redis.call('SREM', void, unpack(ids)) end
  local records = redis.call('HMGET', jobs, unpack(ids))
  local counts = retried and redis.call('HMGET', tries, unpack(ids))
  local leased = {}
  for at, id in ipairs(ids) do
    if records[at] and not (voids and voids[at] == 1) then
      lease(id, counts and counts[at], records[at], leased)
    end
  end
  if #leased > 0 then added = added + redis.call('HSET', run, unpack(leased)) end
  if limit and #leased > 0 then
    local started = {}
    for at = 1, #leased, 2 do started[#started + 1] = leased[at] end
    redis.call('ZREM', expiry, unpack(started))
  end
  room = room - #leased / 2
end

-- Lease up to `want` jobs of groups; returns whether there are groups that were not looked at.
local function lease_turns(level, want)
  local ids, more = take_turns(level, heavy and math.min(want, 1) or want)
  if #ids > 0 then lease_all(ids) end
  if not heavy then return more end
  while #ids > 0 do
    if not fits(ids[1]) then full = true end
    want = want - 1
    if full or want < 1 then return more end
    ids, more = take_turns(level, 1)
    if #ids > 0 then lease_all(ids) end
  end
  return more
end

-- The first `most` of a ready list, as far as they fit.
local function take(ready, most)
  if heavy then
    local first = redis.call('LRANGE', ready, 0, most - 1)
    for at, id in ipairs(first) do
      if not fits(id) then
        most, full = at - 1, true
        break
      end
    end
  end
  return most > 0 and redis.call('LPOP', ready, most)
end

-- a round may still name groups without waiting jobs
local grouped = redis.call('EXISTS', group_queue, throttled, unpack(rounds)) > 0
if grouped then wake_throttled() end
for level = 0, 2 do
  if grouped then
    -- the plain jobs are one more in the round
    local turns = redis.call('LLEN', rounds[1 + level])
    local share = redis.call('LLEN', ready[1 + level]) == 0 and room or math.ceil(room * turns / (turns + 1))
    lease_turns(level, share)
  end
  while room > 0 and budget > 0 and not full do
    local ids = take(ready[1 + level], math.min(room, 1000))
    if not ids then break end
    budget = budget - #ids
    lease_all(ids)
  end
  if grouped and room > 0 and not full then unseen = lease_turns(level, room) or unseen end
  if full then break end
end

count_leased(added)
if added > 0 then redis.call('HSET', stats, 'fence', string.format('%.0f', fence)) end

local function look_again(wait)
  if reply[3] < 0 or wait < reply[3] then reply[3] = math.max(0, wait) end
end

local next_due = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
local next_group = grouped and redis.call('ZRANGEBYSCORE', throttled, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
if next_due then look_again(tonumber(next_due) - today) end
if next_group then look_again(tonumber(next_group) - today) end
if limit then look_again(tonumber(limit) - today) end
if wait then look_again(wait) end
if room > 0 and (budget <= 0 or unseen) then
  reply[3] = 0 -- many were void, or many groups may run nothing: ask again at once
elseif swept and #reply == 3 and redis.call('ZCOUNT', expiry, -today, '(0') > 0 then
  return {2, now, 0}
elseif #reply == 3 and channel ~= '' then
  redis.call('ZADD', idle_workers, now + (wait or 0) * 1000, channel) -- a worker with a time of its own is not woken before (wake.lua)
  redis.call('ZREMRANGEBYSCORE', idle_workers, 0, now - GONE) -- killed in their sleep
  if heavy and redis.call('HLEN', jobs) == 0 then redis.call('HDEL', stats, 'heavy') end
  if not rules[11] and seal then
    rules[11] = seal
    redis.call('HSET', stats, 'seal', rules[11])
  end
  reply[4] = rules[11]
  return reply
elseif #ripe > 0 and (room <= 0 or full) then
  wake(#ripe)
end
return with_notes()
