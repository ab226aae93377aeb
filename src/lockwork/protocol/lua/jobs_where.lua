-- Tells where a job is that has not ended, and whether its queue is served.
-- KEYS: jobs, due, dead, books, workers, stats, flows, then the run hash of each session named in ARGV
-- ARGV: id, then the sessions that the caller knows
-- Reply: {state, sessions that are alive, 1 if the queue is paused, session ...}; state: scheduled, blocked, ready (or in line),
--   running, gone (it has ended, or is unknown), or look: the caller is to name the sessions behind it
-- include: now
-- include: flow_waits
local id = ARGV[1]
local alive = redis.call('ZCOUNT', KEYS[5], string.format('(%.0f', math.floor(now / 1000)), '+inf')
local paused = redis.call('HEXISTS', KEYS[6], 'paused')
local function at(state) return {state, alive, paused} end
if redis.call('HEXISTS', KEYS[1], id) == 0 or redis.call('ZSCORE', KEYS[3], id) then return at('gone') end
if redis.call('ZSCORE', KEYS[2], id) then return at('scheduled') end
if waits_in_flow(KEYS[7], id) then return at('blocked') end
if redis.call('HEXISTS', KEYS[4], '@ ' .. id) == 1 then return at('ready') end
local known = {}
for number = 2, #ARGV do
  known[ARGV[number]] = true
  if redis.call('HEXISTS', KEYS[6 + number], id) == 1 then return at('running') end
end
local sessions = redis.call('ZRANGE', KEYS[5], 0, -1)
for _, session in ipairs(sessions) do
  if not known[session] then
    local reply = at('look')
    for _, each in ipairs(sessions) do reply[#reply + 1] = each end
    return reply
  end
end
return at('ready')
