-- Leases up to `want` jobs to a worker session, after moving due jobs to their ready list or group queue.
-- KEYS: <queue/push>, <queue/groups>, tries: hash, workers, job_notes, expiry, void, parked: zset, parked_since: hash; run: hash
-- ARGV: again: flag, want: number, request, session, channel, known: number, seal?, tasks?
--   again: an earlier try may have been applied; channel: for a wake-up when no job was ready; '' for none
--   known: fence of the last job of this queue that the caller received. If a later offer has not reached the caller,
--     the reply contains it
--   seal: a new secret for sealing offers; tasks: the worker's tasks and versions (queue/parts/take_parked.lua), whose
--     parked jobs come first
-- Reply: {state, fence, ms until the next due job or -1, then per job: id, token, record; or, before a wake-up, the
--   secret that seals offers to the worker}; state: SESSION_OVER; EXPIRE_FIRST: call queue/expire first, because jobs
--   have expired, or nothing is ready and old entries can be deleted; or NORMAL, plus WITH_NOTES if last comes
--   {id, note, id, note ...}, with the entry in parked_since of a job as the note of `ID p`, plus HAS_PARKED if the
--   queue has parked jobs
-- Codes: session_over=0, normal=1, expire_first=2, with_notes=2, has_parked=4, has_messages=8
-- Invariants: a job moves from its ready list or group queue to the session's run hash atomically; a token is never
--   reused; a key has one job at a time; groups and the queue keep their limits; nothing is leased from a paused queue
-- include: now
-- include: queue/push
-- include: queue/groups
-- include: queue/numbered
-- include: queue/take_parked
-- include: queue/sessions
local STATE, FENCE, WAIT_MS = 1, 2, 3 -- fields of the reply, before its jobs
local GONE = 60000000 -- us; an idle worker calls again every few seconds
local noted, any_void = redis.call('HLEN', job_notes) > 0, redis.call('SCARD', void) > 0
local _, limit = unpack(redis.call('ZRANGE', expiry, 0, 0, 'WITHSCORES'))
local swept = false
if limit and tonumber(limit) < 0 then
  -- scores below 0 can be deleted when there is nothing else to do
  swept = true
  _, limit = unpack(redis.call('ZRANGEBYSCORE', expiry, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1))
end
local fence = next_fence()
local reply = {NORMAL + (queue.has_parked and HAS_PARKED or 0) + (queue.outbox and HAS_MESSAGES or 0), fence, -1}

if is_over(session) then return {SESSION_OVER, now, -1} end

-- `tried`: the entry in `tries`; `ends`: when the job expires (ms). The token has it for a worker that cannot run the
-- job.
local function lease(id, tried, record, ends, leased, task)
  local special, attempt = not plain(record), '1'
  if special then begun(id, record) end
  if tried then
    local count, crashes = string.match(tried, '^(%d+)([/%d]*)')
    attempt = string.format('%d%s', (count or 0) + 1, crashes or '')
  end
  if task then attempt = attempt .. (special and '*+' or '+') .. task elseif special then attempt = attempt .. '*' end
  local token = string.format('%s %.0f %s', attempt, fence, request)
  if ends then token = token .. '@' .. ends end
  leased[#leased + 1] = id
  leased[#leased + 1] = token
  reply[#reply + 1] = id
  reply[#reply + 1] = token
  reply[#reply + 1] = record
end

-- Add the notes of earlier deliveries of the jobs.
local function with_notes()
  local ids = {}
  for at = WAIT_MS + 1, #reply, 3 do ids[#ids + 1] = reply[at] end
  if not (noted or queue.has_parked) or #ids == 0 then return reply end
  local found = {}
  local function add(key, suffix)
    for at, note in ipairs(redis.call('HMGET', key, unpack(ids))) do
      if note then
        found[#found + 1] = ids[at] .. suffix
        found[#found + 1] = note
      end
    end
  end
  if noted then add(job_notes, '') end
  if queue.has_parked then add(parked_since, ' p') end
  if #found > 0 then
    reply[STATE] = reply[STATE] + WITH_NOTES
    reply[#reply + 1] = found
  end
  return reply
end

local offered = -(redis.call('ZSCORE', idle_workers, channel) or 0)
redis.call('ZREM', idle_workers, channel) -- this worker is awake: wake-ups must reach idle workers
if again or offered > known then
  -- the reply of an earlier try, or an offer, was lost: its jobs are in the run hash
  local held = redis.call('HGETALL', run)
  for at = 1, #held, 2 do
    local id, token = held[at], held[at + 1]
    local given, asked = string.match(token, ' (%d+) ([^%s@]+)%S*$')
    if asked == request or (asked == '~' and tonumber(given) > known) then
      -- tries of one request may have leased jobs twice: the highest fence is that of the last
      reply[FENCE] = #reply > WAIT_MS and math.max(reply[FENCE], tonumber(given)) or tonumber(given)
      reply[#reply + 1] = id
      reply[#reply + 1] = token
      reply[#reply + 1] = redis.call('HGET', jobs, id) or '' -- deleted by hand
    end
  end
  if #reply > WAIT_MS then return with_notes() end
end

local now_ms = math.floor(now / 1000)
if limit and tonumber(limit) <= now_ms then return {EXPIRE_FIRST, now, 0} end
local ripe = redis.call('ZRANGEBYSCORE', due, '-inf', now_ms, 'LIMIT', 0, math.max(want, queue.numbered and 1000 or 100))
local heavy = queue.heavy
local fits = heavy and allowance()
if heavy then
  for at, id in ipairs(ripe) do
    if not fits(id) then
      ripe = {unpack(ripe, 1, at - 1)} -- later calls move the others
      break
    end
  end
end
if #ripe > 0 then
  local records = redis.call('HMGET', jobs, unpack(ripe))
  for at, id in ipairs(ripe) do
    local record = records[at]
    if not record then
      unpark({id}, true)
    elseif not plain(record) then
      admit(id, record, tonumber(redis.call('ZSCORE', due, id)))
    elseif not (any_void and redis.call('SREM', void, id) == 1) then
      -- else it was rescheduled, and still has its place in the list
      redis.call('RPUSH', ready_key(record), id)
    end
  end
  redis.call('ZREM', due, unpack(ripe))
  unpark(ripe)
end

local room, wait = may_lease(want)
if tasks then take_parked(tasks, room, fence) end
local budget = want + 2000
local added, unseen = 0, false
local retried = redis.call('EXISTS', tries) == 1
local full = false -- whether the reply has reached its size limit
fits = heavy and allowance(noted and job_notes)

-- `chosen`: the tasks of these jobs may start them.
local function lease_all(ids, chosen)
  local voids = any_void and redis.call('SMISMEMBER', void, unpack(ids))
  if voids then redis.call('SREM', void, unpack(ids)) end
  local records = redis.call('HMGET', jobs, unpack(ids))
  local counts = retried and redis.call('HMGET', tries, unpack(ids))
  local ends = limit and redis.call('ZMSCORE', expiry, unpack(ids))
  local leased = {}
  for at, id in ipairs(ids) do
    local is_void = voids and voids[at] == 1
    local task = queue.limited and records[at] and not is_void and task_limits.of(records[at])
    local state = task and task_limits.load(task)
    local free, at_ms = 1, nil
    if state and chosen then state.pending = math.max(0, state.pending - 1) end
    if state and not chosen then free, at_ms = task_limits.room(state) end
    if at_ms then task_limits.next_ms = math.min(task_limits.next_ms or at_ms, at_ms) end
    if free < 1 then
      task_limits.hold(level(records[at]), task, id)
    elseif records[at] and not is_void then
      if state then task_limits.take(state, id) end
      lease(id, counts and counts[at], records[at], ends and ends[at], leased, task)
    elseif not records[at] then
      unpark({id}, true) -- deleted by hand
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

-- Lease up to `want` jobs of groups; return whether groups remain unread.
local function lease_turns(level, want)
  local ids, more = take_turns(level, heavy and math.min(want, 1) or want)
  if #ids > 0 then lease_all(ids, true) end
  if not heavy then return more end
  while #ids > 0 do
    local id = unpack(ids)
    if not fits(id) then full = true end
    want = want - 1
    if full or want < 1 then return more end
    ids, more = take_turns(level, 1)
    if #ids > 0 then lease_all(ids, true) end
  end
  return more
end

-- Lease held jobs of this level whose tasks may start them now: they are older than the ready jobs.
local function lease_held(level)
  repeat
    local ids = task_limits.choose_held(level, heavy and math.min(room, 1) or math.min(room, 1000))
    if #ids > 0 then lease_all(ids, true) end
    if heavy and #ids > 0 and not fits(ids[1]) then full = true end
  until #ids == 0 or room < 1 or full
end

-- Return up to `most` jobs of a ready list that fit in the reply.
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

-- Lease jobs of the numbered levels from `low` to `high`.
local function lease_levels(low, high)
  if queue.limited and low < high then
    for level = low, high do lease_levels(level, level) end
    return
  end
  if queue.limited and room > 0 and not full then lease_held(low) end
  while room > 0 and not full do
    local ids, more = take_levels(low, high, heavy and 1 or room)
    unseen = unseen or more
    if #ids == 0 then break end
    lease_all(ids, true)
    if heavy and not fits(ids[1]) then full = true end
    if more then break end
  end
end

-- a round may contain groups without waiting jobs
local grouped = redis.call('EXISTS', group_queue, throttled, unpack(rounds)) > 0
if grouped then wake_throttled() end
for level = 0, 2 do
  if queue.limited and room > 0 then lease_held(level) end
  if grouped then
    -- the plain jobs take one turn per round, like a group
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
  if queue.numbered and grouped and level < 2 then lease_levels(level == 0 and 3 or 7, level == 0 and 6 or 9) end
  if full then break end
end

if queue.limited then
  task_limits.forget_unused()
  task_limits.save()
end
count_leased(added)
if added > 0 then redis.call('HSET', stats, 'fence', string.format('%.0f', fence)) end

local function retry_within(ms)
  if reply[WAIT_MS] < 0 or ms < reply[WAIT_MS] then reply[WAIT_MS] = math.max(0, ms) end
end

local _, next_due = unpack(redis.call('ZRANGE', due, 0, 0, 'WITHSCORES'))
if next_due then retry_within(tonumber(next_due) - now_ms) end
if grouped then
  local _, next_group = unpack(redis.call('ZRANGEBYSCORE', throttled, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1))
  if next_group then retry_within(tonumber(next_group) - now_ms) end
end
if limit then retry_within(tonumber(limit) - now_ms) end
if task_limits.next_ms then retry_within(task_limits.next_ms - now_ms) end
if wait then retry_within(wait) end
if room > 0 and (budget <= 0 or unseen) then
  reply[WAIT_MS] = 0 -- many entries were void, or many groups are at their limits: retry at once
elseif swept and #reply == WAIT_MS and redis.call('ZCOUNT', expiry, -now_ms, '(0') > 0 then
  return {EXPIRE_FIRST, now, 0}
elseif #reply == WAIT_MS and channel ~= '' then
  redis.call('ZADD', idle_workers, now + (wait or 0) * 1000, channel) -- no wake-up before this time (wake.lua)
  redis.call('ZREMRANGEBYSCORE', idle_workers, 0, now - GONE) -- workers that were killed while idle
  if (heavy or queue.numbered) and redis.call('HLEN', jobs) == 0 then
    redis.call('HDEL', stats, 'heavy', 'numbered')
    if queue.numbered then redis.call('HDEL', groups, 'c 3', 'c 4', 'c 5', 'c 6', 'c 7', 'c 8', 'c 9') end
  end
  if not queue.seal and seal then
    queue.seal = seal
    redis.call('HSET', stats, 'seal', seal)
  end
  reply[#reply + 1] = queue.seal
  return reply
elseif #ripe > 0 and (room <= 0 or full) then
  wake(#ripe)
end
return with_notes()
