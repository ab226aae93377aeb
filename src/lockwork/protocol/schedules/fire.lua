-- Enqueues the jobs of due slots and moves the schedules' cursors. Any worker may call it.
-- KEYS: <queue/push>, <schedules/looks>, dead: zset
-- ARGV: asked: number, schedules...
--   asked: the caller's time (ms); then per schedule: name, digest, the cursor it knows, the new cursor, how late a
--     slot may be (ms; 0: any), 1 to skip slots while the last job has not ended, number of slots that are left out as
--     missed, number of slots, the next look; per slot: slot, id of its job
--   the next look (ms) of a created schedule, whose slots may be none; 0: it has no more slots, and is deleted; '' for
--     a schedule in code
-- Indexed: stats
-- Reply: {now ms, then per schedule: result, cursor}; result: FIRED; CURSOR_DIFFERS; CLOCKS_DIFFER, between caller and
--   server: retry; NOT_IN_FORCE: another definition is, or none
-- Codes: fired=1, cursor_differs=2, clocks_differ=3, not_in_force=0
-- Invariants: a cursor moves only forward, atomically with the enqueuing of its slots' jobs; no slot is enqueued before
--   its time
-- include: now
-- include: queue/push
-- include: schedules/looks
-- include: schedules/jobs
local args = {}
for at = 1, #ARGV do args[at] = ARGV[at] end
local now_ms = math.floor(now / 1000)
local stale = now_ms - asked > 5000
local reply, changed = {now_ms}, {}

local at = FIRST
while args[at] do
  local name, upto, late, count = args[at], tonumber(args[at + 3]), tonumber(args[at + 4]), tonumber(args[at + 7])
  local next_look = tonumber(args[at + 8])
  local hash = next_look and created or schedules
  local known, result = load(hash, name), NOT_IN_FORCE
  if known and known[DIGEST] == args[at + 1] and not (next_look and known[PAUSED] == 1) then
    result = FIRED
    local least = next_look and known[CURSOR] or known[CURSOR] + 1
    if known[CURSOR] ~= tonumber(args[at + 2]) then
      result = CURSOR_DIFFERS
    elseif stale or upto < least or upto > math.max(now_ms, known[CURSOR]) then
      result = CLOCKS_DIFFER
    end
  end
  if result == FIRED then
    if known[PAUSED] == 0 then known[MISSED] = known[MISSED] + tonumber(args[at + 6]) end
    for place = at + 9, at + 7 + 2 * count, 2 do
      local slot, id = tonumber(args[place]), args[place + 1]
      if known[PAUSED] == 0 and (late == 0 or now_ms - slot <= late) then
        if args[at + 5] == '1' and unended(known[JOB]) then
          known[OVERLAPPED] = known[OVERLAPPED] + 1
        else
          add(id, redis.call('HGET', hash, 'r' .. name))
          known[JOB], known[SLOT], known[ENQUEUED] = id, slot, known[ENQUEUED] + 1
        end
      elseif known[PAUSED] == 0 then
        known[MISSED] = known[MISSED] + 1
      end
    end
    known[CURSOR] = upto
    changed[#changed + 1] = {hash, name, known, next_look}
  end
  reply[#reply + 1] = result
  reply[#reply + 1] = known and known[CURSOR] or 0
  at = at + 9 + 2 * count
end

enqueue()
for _, change in ipairs(changed) do
  local hash, name, known, next_look = unpack(change, 1, 4)
  if next_look == 0 then
    delete(name)
  else
    save(hash, name, known)
    if next_look then redis.call('ZADD', looks, next_look, name) end
  end
end
return reply
