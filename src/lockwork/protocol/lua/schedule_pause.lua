-- Pauses a schedule, or lets it go on.
-- KEYS: schedules, seen
-- ARGV: name, 1 to pause it, 0 to resume it
-- Reply: 1, or 0 when there is no such schedule
-- Invariants: slots that passed while it was paused are not enqueued later
-- include: now
-- include: schedule
local known = load(ARGV[1])
if not known then return 0 end
local paused = tonumber(ARGV[2])
if known[PAUSED] ~= paused then
  -- perhaps nobody was there to pass over them
  if paused == 0 then known[CURSOR] = math.max(known[CURSOR], math.floor(now / 1000)) end
  known[PAUSED] = paused
  save(ARGV[1], known)
end
return 1
