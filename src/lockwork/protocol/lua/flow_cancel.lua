-- Cancels a flow: jobs that wait end, at once or a little later; running jobs are marked, and do not run again.
-- KEYS: <control>
-- ARGV: again: flag, window: number, flow
--   again: an earlier call may have been applied; window: ms
-- Out of memory: goes on
-- Reply: {state, ids of jobs that run ...}: cancelled; more (call again); ended or unknown (nothing was done)
-- Invariants: after the first call, no job of the flow starts that waits for another
-- include: now
-- include: control
local engine = flow_engine()
local opened = engine.store.open(flow)
local state = opened and opened.record.state
if not opened or state == 'storing' or state == 'removing' or state == 'discarding' then return {'unknown'} end
if state ~= 'running' then return {again and opened.record.stopped and 'cancelled' or 'ended'} end
local outcomes = {}
if not (opened.steps[1] and opened.steps[1].cancel) then -- else an earlier call has left something of it
  opened.record.stopped = true
  table.insert(opened.steps, 1, {cancel = true, at = 1}) -- first of all: what waits for others never begins
end
carry_on(outcomes, window)
conclude(outcomes, window)
save_history()
local more = opened.steps[1] and opened.steps[1].cancel
return {more and 'more' or 'cancelled', unpack(engine.running)}
