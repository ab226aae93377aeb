-- Declares a process's schedules: creates new ones, keeps known ones, and deletes schedules that no process declares
-- any more.
-- KEYS: <schedules/schedule>, looks: zset
-- ARGV: joins: flag, (name, digest, known_until, timing, definition, record)
--   joins: this process declares them for the first time; digest: of the definition
--   known_until: the newest slot of this definition that the process knows to be processed (ms), where the cursor
--     begins if the server lost it; 0 if the process knows none
--   timing, definition, record: empty if the server should know them
-- Reply: {now ms, number of schedules, number of created schedules, then per schedule: state, cursor}; state: IN_FORCE:
--   this definition is; REPLACED: another definition is in force; UNKNOWN: declare it completely; TAKEN: a schedule with
--   this name was created at run time. The cursor is the newest processed slot (ms)
-- Codes: in_force=1, replaced=2, unknown=0, taken=3
-- Invariants: created schedules do not change; a cursor never goes back; a later definition replaces a definition, and so does any definition after a
--   lease without declarations; without schedules, no key remains
-- include: now
-- include: schedules/schedule
local SCHEDULES = 2 -- field of the reply
local now_ms = math.floor(now / 1000)
local lived = tonumber(redis.call('HGET', schedules, 'l') or 0)
local created_count = redis.call('ZCARD', looks)
if #ARGV < FIRST and redis.call('ZCARD', seen) == 0 then return {now_ms, 0, created_count} end

-- This clock advances only while processes declare, so no schedule is deleted while all processes are stopped.
local last = tonumber(redis.call('HGET', schedules, 't') or now_ms)
lived = lived + math.max(0, math.min(now_ms - last, TURN))
redis.call('HSET', schedules, 'l', lived, 't', now_ms)

local reply = {now_ms, 0, created_count}
for at = FIRST, #ARGV, STRIDE do
  local name, digest, known_until, timing, definition, record = unpack(ARGV, at, at + STRIDE - 1)
  local known = load(schedules, name)
  local mine = known and known[DIGEST] == digest
  local state = mine and IN_FORCE or UNKNOWN
  if created_count > 0 and load(created, name) then
    state = TAKEN
  elseif not mine and definition ~= '' then
    local live = known and lived - tonumber(redis.call('ZSCORE', seen, name) or 0) < LEASE
    if known and live and not joins then
      state = REPLACED
    else
      known_until = tonumber(known_until)
      local fresh = known or {digest, timing, known_until > 0 and math.min(known_until, now_ms) or now_ms, 0, '', 0, 0, 0, 0}
      -- slots of the old timing do not apply to the new timing
      if fresh[TIMING] ~= timing then fresh[CURSOR] = math.max(fresh[CURSOR], now_ms) end
      fresh[DIGEST], fresh[TIMING] = digest, timing
      save(schedules, name, fresh)
      redis.call('HSET', schedules, 'd' .. name, definition, 'r' .. name, record)
      known, state = fresh, IN_FORCE
    end
  elseif not mine and known and lived - tonumber(redis.call('ZSCORE', seen, name) or 0) < LEASE then
    state = REPLACED
  end
  if state == IN_FORCE then redis.call('ZADD', seen, lived, name) end
  reply[#reply + 1] = state
  reply[#reply + 1] = known and known[CURSOR] or 0
end

for _, name in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', lived - KEPT, 'LIMIT', 0, 100)) do
  redis.call('HDEL', schedules, 'd' .. name, 'r' .. name, 's' .. name)
  redis.call('ZREM', seen, name)
end
reply[SCHEDULES] = redis.call('ZCARD', seen)
if reply[SCHEDULES] == 0 then redis.call('DEL', schedules) end
return reply
