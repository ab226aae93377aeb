-- Ends of tracked jobs that no worker has reported (queue/parts/tracked.lua).
--   unreported: `ID TASK`, by the time (ms) from which any worker may take it; `ID TASK REQUEST` of an end that was
--     taken, by minus that time; and the channels of workers that wait for the next end, scored `waiting`
-- KEYS: unreported: zset
-- include: now
local tracking = {
  waiting = 9e15,
  forget_ms = 604800000, -- an end that no worker has reported for a week is forgotten
  own_ms = 10000, -- until then, only the worker that settled a job takes its end
}
