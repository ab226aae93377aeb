-- Leases one suspect to the session of an isolation process, which runs nothing else.
-- KEYS: <queue/push>, <queue/groups>, <queue/suspects>, tries: hash, workers, job_notes; run
-- ARGV: again: flag, request, session
--   again: an earlier try may have been applied; request: begins with `!`
-- Reply: {state, fence, ms until the next call or -1 (no suspects, or the queue is paused), then id, token and record
--   of a job, its note or ''}; state 0: the session is over
-- Invariants: the session has one job at a time, so a crash is caused by that job; a job is in one place before and
--   after; the limits of the queue and of groups hold
-- include: now
-- include: queue/push
-- include: queue/groups
-- include: queue/suspects
-- include: queue/sessions
local SOON, LATER, FIRST_MS = 100, 1000, 1000 -- ms
local fence = math.max(now, tonumber(rules[9] or 0) + 1)

if is_over(session) then return {0, now, -1, ''} end

local function answer(id, token, record)
  return {1, fence, SOON, id, token, record, redis.call('HGET', job_notes, id) or ''}
end

local held = redis.call('HGETALL', run)
if #held > 0 then
  local given, asked = string.match(held[2], ' (%d+) (%S+)$')
  if not again or asked ~= request then return {1, fence, SOON, ''} end -- its outcome is on its way
  fence = tonumber(given)
  return answer(held[1], held[2], redis.call('HGET', jobs, held[1]) or '') -- deleted by hand
end
if not rules[12] or rules[1] then return {1, fence, -1, ''} end

-- Reserve freed places for suspects until `us`. Otherwise other jobs take each place before the next call.
local function comes_first(us)
  rules[12] = string.format('%.0f', us + FIRST_MS * 1000)
  redis.call('HSET', stats, 'suspects', rules[12])
  return {1, fence, math.min(LATER, math.max(SOON, math.ceil((us - now) / 1000))), ''}
end

if at_once and at_work >= at_once then return comes_first(now) end
if rate_jobs then
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

local fits = allowance()
for _, id in ipairs(redis.call('ZRANGE', suspects, 0, 199)) do
  if not fits(id) then break end
  local record = redis.call('HGET', jobs, id)
  if not record then
    clear_suspect(id) -- it was deleted by hand
  elseif plain(record) or group_allows(record) then
    clear_suspect(id)
    local count, others = string.match(redis.call('HGET', tries, id) or '', '^(%d+)([/%d]*)')
    if not plain(record) then begun(id, record) end
    local token = string.format(plain(record) and '%d%s %.0f %s' or '%d%s* %.0f %s', (count or 0) + 1, others or '', fence, request)
    redis.call('HSET', run, id, token)
    redis.call('HSET', stats, 'fence', string.format('%.0f', fence))
    count_leased(1)
    if suspects_first() then
      if rules[12] then
        rules[12] = '0'
        redis.call('HSET', stats, 'suspects', 0)
      end
      wake(at_once and at_once - at_work or 1)
    end
    return answer(id, token, record)
  end
end
return {1, fence, rules[12] and wait or -1, ''}
