-- Creates a schedule at run time, or changes it.
-- KEYS: <schedules/changes>
-- ARGV: name, digest, timing, definition, record, begin: number, channels
--   digest: of the definition and the record; begin: where the cursor begins (ms); 0: now; channels: prefix of a
--     session's channel
-- Indexed: stats
-- Reply: CREATED; CHANGED; UNCHANGED: the schedule is the same already; DECLARED: live code has a schedule of this name
-- Codes: created_now=1, changed=2, unchanged=3, declared=0
-- Invariants: a change keeps the pause and the counters; slots of the old timing do not apply to a new timing
-- include: now
-- include: schedules/changes
local now_ms = math.floor(now / 1000)
local known = load(created, name)
if not known and is_declared(name) then return DECLARED end
if known and known[DIGEST] == digest then return UNCHANGED end
local state = known or {digest, timing, begin > 0 and begin or now_ms, 0, '', 0, 0, 0, 0}
if state[TIMING] ~= timing then state[CURSOR] = begin > 0 and begin or math.max(state[CURSOR], now_ms) end
state[DIGEST], state[TIMING] = digest, timing
if not known then
  -- a schedule of this name whose code was removed
  redis.call('HDEL', schedules, 'd' .. name, 'r' .. name, 's' .. name)
  redis.call('ZREM', seen, name)
end
save(created, name, state)
redis.call('HSET', created, 'd' .. name, definition, 'r' .. name, record)
redis.call('ZADD', created_names, 0, name)
if state[PAUSED] == 0 then
  look_now(name, now_ms)
else
  redis.call('ZADD', looks, PAUSED_LOOK, name)
end
return known and CHANGED or CREATED_NOW
