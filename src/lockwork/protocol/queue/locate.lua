-- Reads where an unended job is, and whether workers serve its queue.
-- Flags: no-writes
-- KEYS: jobs, due, dead, groups, workers, stats, flows; runs*
-- ARGV: id, (session)
--   session: the sessions that the caller knows, with their run hashes
-- Reply: {state, live sessions, 1 if the queue is paused, ...}; state: scheduled, blocked, ready (or in a group queue),
--   running (and its session and token), gone (ended or unknown), or look and sessions: the caller repeats
--   the call with these
-- include: now
-- include: flows/waits
local alive = redis.call('ZCOUNT', workers, string.format('(%.0f', math.floor(now / 1000)), '+inf')
local paused = redis.call('HEXISTS', stats, 'paused')
local function standing(state) return {state, alive, paused} end
if redis.call('HEXISTS', jobs, id) == 0 or redis.call('ZSCORE', dead, id) then return standing('gone') end
local at = redis.call('ZSCORE', due, id)
if at then return standing(tonumber(at) > math.floor(now / 1000) and 'scheduled' or 'ready') end
if waits_in_flow(flows, id) then return standing('blocked') end
if redis.call('HEXISTS', groups, '@ ' .. id) == 1 then return standing('ready') end
local known = {}
for at, run in ipairs(runs) do
  known[ARGV[FIRST + at - 1]] = true
  local token = redis.call('HGET', run, id)
  if token then return {'running', alive, paused, ARGV[FIRST + at - 1], token} end
end
local sessions = redis.call('ZRANGE', workers, 0, -1)
for _, session in ipairs(sessions) do
  if not known[session] then
    local reply = standing('look')
    for _, each in ipairs(sessions) do reply[#reply + 1] = each end
    return reply
  end
end
return standing('ready')
