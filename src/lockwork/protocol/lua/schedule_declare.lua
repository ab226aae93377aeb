-- Says which schedules a process has in its code: creates new ones, keeps known ones, and deletes those that no process has any more.
-- KEYS: <schedule>
-- ARGV: joins: flag, (name, digest, timing, definition, record)
--   joins: this process declares them for the first time; digest: of the definition
--   timing, definition, record: empty when the server is thought to know them
-- Reply: {now ms, schedules kept, then per schedule: state, cursor}: state 1 ours is in force, 2 another definition is,
--   0 declare it whole. The cursor is the newest slot that is dealt with, ms
-- Invariants: a cursor never goes back; another definition gives way to one that is declared later, or when nobody has declared
--   it for a lease; no key is left when no schedule is
-- include: now
-- include: schedule
local today = math.floor(now / 1000)
local lived = tonumber(redis.call('HGET', schedules, 'l') or 0)
if #ARGV < FIRST and redis.call('ZCARD', seen) == 0 then return {today, 0} end

-- This clock goes only while processes declare, so no schedule is deleted while all of them are stopped.
local last = tonumber(redis.call('HGET', schedules, 't') or today)
lived = lived + math.max(0, math.min(today - last, TURN))
redis.call('HSET', schedules, 'l', lived, 't', today)

local reply = {today, 0}
for at = FIRST, #ARGV, STRIDE do
  local name, digest, timing, definition, record = unpack(ARGV, at, at + STRIDE - 1)
  local known = load(name)
  local mine = known and known[DIGEST] == digest
  local state = mine and 1 or 0
  if not mine and definition ~= '' then
    local live = known and lived - tonumber(redis.call('ZSCORE', seen, name) or 0) < LEASE
    if known and live and not joins then
      state = 2
    else
      local fresh = known or {digest, timing, today, 0, '', 0, 0, 0, 0}
      -- slots of the old timing say nothing about the new one
      if fresh[TIMING] ~= timing then fresh[CURSOR] = math.max(fresh[CURSOR], today) end
      fresh[DIGEST], fresh[TIMING] = digest, timing
      save(name, fresh)
      redis.call('HSET', schedules, 'd' .. name, definition, 'r' .. name, record)
      known, state = fresh, 1
    end
  elseif not mine and known and lived - tonumber(redis.call('ZSCORE', seen, name) or 0) < LEASE then
    state = 2
  end
  if state == 1 then redis.call('ZADD', seen, lived, name) end
  reply[#reply + 1] = state
  reply[#reply + 1] = known and known[CURSOR] or 0
end

for _, name in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', lived - KEPT, 'LIMIT', 0, 100)) do
  redis.call('HDEL', schedules, 'd' .. name, 'r' .. name, 's' .. name)
  redis.call('ZREM', seen, name)
end
reply[2] = redis.call('ZCARD', seen)
if reply[2] == 0 then redis.call('DEL', schedules) end
return reply
