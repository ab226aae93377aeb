-- Discards a flow, or its part in another queue, that is not stored completely.
-- KEYS: <queue/control>
-- ARGV: flow
-- Out of memory: goes on
-- Reply: 1 if it is discarded, 0 if it is stored or unknown
-- Invariants: no job of a discarded flow ever runs
-- include: now
-- include: queue/control
local engine = flow_engine()
local opened = engine.store.open(flow)
if not opened or opened.record.state ~= 'storing' then return 0 end
opened.record.state = 'discarding'
engine.store.save(opened)
engine.visit_after(opened, 0)
return 1
