-- Enqueues a flow, in one call or several: what the calls before the last one store cannot be seen.
-- KEYS: <control>
-- ARGV: again: flag, window: number, flow, total: number, begins: flag, ends: flag, answer, roots,
--   (number, record, delay, waits, children, policy, undo)
--   again: an earlier try may have been applied; window: ms; total: how many jobs; begins, ends: the first, the last call
--   answer, roots: in the last call: the flow's own result, and the jobs that wait for no other
--   waits: for how many it waits; undo: record of its compensation ('' for each that it has not); lists are MessagePack
-- Reply: 1; 0 when it was not stored to its end in time (nothing of it will run); {waiting, size}, to the first call, when the
--   queue has no room for all of it, and nothing was stored
-- Invariants: nothing runs before all is stored; what is stored and never runs is forgotten after 10 minutes
-- include: now
-- include: control
local store = flow_engine().store
local opened = store.open(flow)
if not opened then
  if not begins then return 0 end
  local no_room = total > 0 and crowded(total, dead)
  if no_room then return no_room end
  opened = store.create(flow, total)
  redis.call('ZADD', expiry, -math.floor(now / 1000) - 600000, 'flow ' .. flow)
end
local flow_record = opened.record
if flow_record.state == 'discarding' then return 0 end
if flow_record.state ~= 'storing' then return 1 end -- sent again
local OPTIONAL = {[2] = 'delay', [4] = 'children', [5] = 'policy', [6] = 'compensation'}
for at = FIRST, #ARGV, STRIDE do
  local number, record, waits = ARGV[at], ARGV[at + 1], ARGV[at + 3]
  if redis.call('HSETNX', jobs, store.job_id(opened, number), record) == 1 then flow_record.stored = flow_record.stored + 1 end
  weigh(record)
  store.set(opened, 'waits', number, waits)
  for offset, name in pairs(OPTIONAL) do
    if ARGV[at + offset] ~= '' then store.set(opened, name, number, ARGV[at + offset]) end
  end
end
if not ends then
  store.save(opened)
  return 1
end
if flow_record.stored < total then return 0 end
store.set(opened, 'answer', nil, answer)
store.set(opened, 'children', 0, roots)
if total > 0 then redis.call('HINCRBY', flows, '#', total) end
redis.call('HINCRBY', stats, 'enqueued', total)
redis.call('ZREM', expiry, 'flow ' .. flow)
flow_record.state = 'running'
opened.steps = {{parent = 0, at = 1}}
carry_on({}, window)
return 1
