-- Cancels a flow: jobs that wait end, at once or a little later; those that run are marked, and do not run again.
-- KEYS: as flow_push
-- ARGV: again (1: an earlier call may have been applied), window ms, flow
-- Reply: {state, ids of jobs that run ...}: cancelled; more (call again); ended or unknown (nothing was done)
-- Invariants: from the first call on no job of it begins that waits for another
-- include: now
-- include: control
local flow, all = ARGV[3], of_flows()
local STATE, STOP = all.STATE, all.STOP
local book = all.book(flow)
if not book or book[STATE] == 'b' or book[STATE] == 'g' or book[STATE] == 'x' then return {'unknown'} end
if book[STATE] ~= 'r' then return {ARGV[1] == '1' and book[STOP] == 1 and 'cancelled' or 'ended'} end
local todo, outcomes = all.todo[flow], {}
if todo[1] ~= -1 then -- else an earlier call has left something of it
  book[STOP] = 1
  table.insert(todo, 1, 1) -- first of all: what waits for others never begins
  table.insert(todo, 1, -1)
end
carry_on(outcomes, tonumber(ARGV[2]))
conclude(outcomes, tonumber(ARGV[2]))
return {all.todo[flow][1] == -1 and 'more' or 'cancelled', unpack(all.running)}
