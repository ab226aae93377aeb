-- Cancels a flow: jobs that wait end, at once or a little later; those that run are marked, and do not run again.
-- KEYS: <control>
-- ARGV: again: flag, window: number, flow
--   again: an earlier call may have been applied; window: ms
-- Out of memory: goes on
-- Reply: {state, ids of jobs that run ...}: cancelled; more (call again); ended or unknown (nothing was done)
-- Invariants: from the first call on no job of it begins that waits for another
-- include: now
-- include: control
local all = of_flows()
local STATE, STOP = all.STATE, all.STOP
local book = all.book(flow)
if not book or book[STATE] == 'b' or book[STATE] == 'g' or book[STATE] == 'x' then return {'unknown'} end
if book[STATE] ~= 'r' then return {again and book[STOP] == 1 and 'cancelled' or 'ended'} end
local todo, outcomes = all.todo[flow], {}
if todo[1] ~= -1 then -- else an earlier call has left something of it
  book[STOP] = 1
  table.insert(todo, 1, 1) -- first of all: what waits for others never begins
  table.insert(todo, 1, -1)
end
carry_on(outcomes, window)
conclude(outcomes, window)
return {all.todo[flow][1] == -1 and 'more' or 'cancelled', unpack(all.running)}
