-- Pauses or resumes a schedule.
-- KEYS: <schedules/schedule>
-- ARGV: name, paused: number
--   paused: 1 to pause, 0 to resume
-- Reply: 1, or 0 if the schedule does not exist
-- Invariants: slots that passed during a pause are not enqueued later
-- include: now
-- include: schedules/schedule
local known = load(name)
if not known then return 0 end
if known[PAUSED] ~= paused then
  -- perhaps no worker was running to skip them
  if paused == 0 then known[CURSOR] = math.max(known[CURSOR], math.floor(now / 1000)) end
  known[PAUSED] = paused
  save(name, known)
end
return 1
