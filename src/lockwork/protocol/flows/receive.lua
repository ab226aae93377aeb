-- Applies messages of flows from another queue (flows/parts/messages.lua).
-- KEYS: <queue/control>
-- ARGV: window: number, source, (message)
--   window: ms; source: the queue that sends the messages
-- Out of memory: goes on
-- Reply: {number of messages that were applied; 1 if messages of this queue wait for a relay, else 0; ids of running
--   jobs that got a cancellation request; positions of the messages whose flow is unknown}
-- Invariants: a message that arrives again, also after later ones, changes nothing
-- include: now
-- include: queue/control
-- include: flows/messages
local MOST = 50 -- messages, each of which may cancel a job with a long record
local engine = flow_engine()
local messages = flow_messages(engine)
local outcomes, unknown, applied, bytes = {}, {}, 0, 0
for at = FIRST, math.min(#ARGV, FIRST + MOST - 1) do
  if applied > 0 and (bytes > BYTES or engine.members.cancelled_bytes > BYTES) then break end
  applied, bytes = applied + 1, bytes + #ARGV[at]
  local fine, message = pcall(cmsgpack.unpack, ARGV[at])
  if fine and type(message) == 'table' and type(message[2]) == 'string' then
    if not messages.receive(source, message, outcomes, window) then unknown[#unknown + 1] = applied end
  end
end
carry_on(outcomes, window)
store_outcomes(outcomes, window)
save_history()
return {applied, queue.outbox and 1 or 0, engine.running, unknown}
