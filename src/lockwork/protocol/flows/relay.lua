-- Acknowledges delivered messages of flows to another queue, and takes the next ones.
-- KEYS: <queue/control>
-- ARGV: again: flag, window: number, request, name, last: number, taker, (number)
--   again: an earlier try may have been applied; window: ms; request: that took the delivered messages; name: the queue
--     that has received them, or ''; last: number of the last one; taker: the new request that takes the next messages,
--     or ''; number: a message whose flow that queue does not know
-- Out of memory: goes on
-- Reply: {} if no message waits; else a queue, the number of the last message, and the first messages to that queue
-- Invariants: a message stays until it is acknowledged; one caller at a time delivers the messages to a queue
-- include: now
-- include: queue/control
-- include: flows/messages
local engine = flow_engine()
local messages = flow_messages(engine)
local outcomes, unknown = {}, {}
for at = FIRST, #ARGV do unknown[tonumber(ARGV[at])] = true end
if name ~= '' then
  engine.outbox.acknowledge(name, request, last, unknown, messages.unknown)
end
-- before carry_on, which wakes a worker for messages that no relay has taken
local reply = taker ~= '' and engine.outbox.take(taker, again) or {}
carry_on(outcomes, window)
store_outcomes(outcomes, window)
save_history()
return reply
