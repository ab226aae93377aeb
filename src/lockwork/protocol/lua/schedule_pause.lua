-- Pauses a schedule, or lets it go on.
-- KEYS: <schedule>
-- ARGV: name, paused: number
--   paused: 1 to pause it, 0 to resume it
-- Reply: 1, or 0 when there is no such schedule
-- Invariants: slots that passed while it was paused are not enqueued later
-- include: now
-- include: schedule
local known = load(name)
if not known then return 0 end
if known[PAUSED] ~= paused then
  -- perhaps no worker was there to skip them
  if paused == 0 then known[CURSOR] = math.max(known[CURSOR], math.floor(now / 1000)) end
  known[PAUSED] = paused
  save(name, known)
end
return 1
