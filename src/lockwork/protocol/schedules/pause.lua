-- Pauses or resumes a schedule.
-- KEYS: <schedules/changes>
-- ARGV: name, paused: number, channels
--   paused: 1 to pause, 0 to resume; channels: prefix of a session's channel
-- Reply: 1, or 0 if the schedule does not exist
-- Invariants: slots that passed during a pause are not enqueued later
-- include: now
-- include: schedules/changes
local known, hash = find(name)
if not known then return 0 end
if known[PAUSED] ~= paused then
  local now_ms = math.floor(now / 1000)
  -- perhaps no worker was running to skip them
  if paused == 0 then known[CURSOR] = math.max(known[CURSOR], now_ms) end
  known[PAUSED] = paused
  save(hash, name, known)
  if hash == created and paused == 1 then redis.call('ZADD', looks, PAUSED_LOOK, name) end
  if hash == created and paused == 0 then look_now(name, now_ms) end
end
return 1
