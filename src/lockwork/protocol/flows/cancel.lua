-- Cancels a flow: waiting jobs end, now or in a later call; running jobs get a cancellation request, and are not
-- retried.
-- KEYS: <queue/control>
-- ARGV: again: flag, window: number, flow
--   again: an earlier call may have been applied; window: ms
-- Out of memory: goes on
-- Reply: {state, ids of running jobs ...}: cancelled; more (call again); ended or unknown (nothing changed); or home
--   and the queue of the flow, if this queue has only a part of it. The last id is `>` if messages to other queues wait
-- Invariants: after the first call, no job of the flow starts that waits for another
-- include: now
-- include: queue/control
local engine = flow_engine()
local opened = engine.store.open(flow)
local state = opened and opened.record.state
if opened and opened.record.home then return {'home', opened.record.home} end
if not opened or state == 'storing' or state == 'removing' or state == 'discarding' then return {'unknown'} end
if state ~= 'running' then return {again and opened.record.stopped and 'cancelled' or 'ended'} end
-- Return whether a part of the cancellation remains.
local function is_cancelling()
  local first_step = opened.steps[1]
  return first_step and first_step.cancel
end

local outcomes = {}
if not is_cancelling() then -- else an earlier call has left a part of the cancellation
  opened.record.stopped = true
  table.insert(opened.steps, 1, {cancel = true, at = 1}) -- comes first, so that jobs that wait for others never start
end
carry_on(outcomes, window)
store_outcomes(outcomes, window)
save_history()
if queue.outbox then engine.running[#engine.running + 1] = '>' end
return {is_cancelling() and 'more' or 'cancelled', unpack(engine.running)}
