-- Leases one suspect to the session of an isolation process, which runs nothing else.
-- KEYS: <queue/push>, <queue/groups>, <queue/suspects>, tries: hash, workers, job_notes; run
-- ARGV: again: flag, request, session
--   again: an earlier try may have been applied; request: begins with `!`
-- Reply: {state, fence, ms until the next call or -1 (no suspects, or the queue is paused), then id, token and record
--   of a job, its note or ''}; state: SESSION_OVER or NORMAL, as in queue/reserve
-- Codes: session_over=0, normal=1
-- Invariants: the session has one job at a time, so a crash is caused by that job; a job is in one place before and
--   after; the limits of the queue and of groups hold
-- include: now
-- include: queue/push
-- include: queue/groups
-- include: queue/suspects
-- include: queue/sessions
local SOON, LATER, FIRST_MS = 100, 1000, 1000 -- ms
local fence = next_fence()

if is_over(session) then return {SESSION_OVER, now, -1, ''} end

local function answer(id, token, record)
  return {NORMAL, fence, SOON, id, token, record, redis.call('HGET', job_notes, id) or ''}
end

local held = redis.call('HGETALL', run)
if #held > 0 then
  local id, token = unpack(held)
  local given, asked = string.match(token, ' (%d+) (%S+)$')
  if not again or asked ~= request then return {NORMAL, fence, SOON, ''} end -- its outcome is on its way
  fence = tonumber(given)
  return answer(id, token, redis.call('HGET', jobs, id) or '') -- deleted by hand
end
if not queue.suspects_until or queue.paused then return {NORMAL, fence, -1, ''} end

-- Reserve freed places for suspects until `us`. Otherwise other jobs take each place before the next call.
local function comes_first(us)
  queue.suspects_until = us + FIRST_MS * 1000
  redis.call('HSET', stats, 'suspects', string.format('%.0f', queue.suspects_until))
  return {NORMAL, fence, math.min(LATER, math.max(SOON, math.ceil((us - now) / 1000))), ''}
end

if queue.max_running and queue.running >= queue.max_running then return comes_first(now) end
if queue.rate_jobs then
  local free, soonest = rate_allows()
  if free < 1 then return comes_first(soonest) end
end

-- Return whether the group's limits allow a job now. If not, its other jobs wait for the suspect, and
-- `wait` is the time until the next try.
local wait = LATER
local function group_allows(record)
  local _, _, group, limits = header(record)
  if group ~= '' then redis.call('HSET', groups, 'l ' .. group, limits) end
  local at = next_turn(group)
  if at ~= 0 then
    wait = at and math.min(wait, math.max(SOON, at - math.floor(now / 1000))) or SOON
    redis.call('HSET', groups, 's ' .. group, string.format('%.0f', math.max(now, (at or 0) * 1000) + FIRST_MS * 1000))
    return false
  end
  redis.call('HINCRBY', groups, 'n ' .. group, 1)
  redis.call('HDEL', groups, 's ' .. group)
  return true
end

local function task_allows(record)
  local task = task_limits.of(record)
  local room, at_ms = 1, nil
  if task then
    room, at_ms = task_limits.room(task_limits.load(task))
    task_limits.save()
  end
  if at_ms then wait = math.min(wait, math.max(SOON, at_ms - math.floor(now / 1000))) end
  return room > 0
end

local fits = allowance()
for _, id in ipairs(redis.call('ZRANGE', suspects, 0, 199)) do
  if not fits(id) then break end
  local record = redis.call('HGET', jobs, id)
  if not record then
    clear_suspect(id) -- it was deleted by hand
  elseif task_allows(record) and (plain(record) or group_allows(record)) then
    local task = task_limits.of(record)
    if task then
      task_limits.take(task_limits.load(task), id)
      task_limits.save()
    end
    clear_suspect(id)
    local count, others = string.match(redis.call('HGET', tries, id) or '', '^(%d+)([/%d]*)')
    if not plain(record) then begun(id, record) end
    local marks = (plain(record) and '' or '*') .. (task and '+' .. task or '')
    local token = string.format('%d%s%s %.0f %s', (count or 0) + 1, others or '', marks, fence, request)
    redis.call('HSET', run, id, token)
    redis.call('HSET', stats, 'fence', string.format('%.0f', fence))
    count_leased(1)
    if suspects_first() then
      if queue.suspects_until then
        queue.suspects_until = 0
        redis.call('HSET', stats, 'suspects', 0)
      end
      wake(queue.max_running and queue.max_running - queue.running or 1)
    end
    return answer(id, token, record)
  end
end
return {NORMAL, fence, queue.suspects_until and wait or -1, ''}
