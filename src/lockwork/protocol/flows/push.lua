-- Enqueues a flow, in one or more calls. Jobs are visible only after the last call.
-- KEYS: <queue/control>
-- ARGV: again: flag, window: number, flow, total: number, begins: flag, ends: flag, answer, roots,
--   (number, record, delay, waits, children, policy, undo)
--   again: an earlier try may have been applied; window: ms; total: number of jobs; begins, ends: the first, the last
--     call
--   answer, roots: in the last call: the jobs whose results are the flow's result, and the jobs without parents
--   waits: number of parents; undo: record of its compensation ('' without one); lists are MessagePack
-- Indexed: stats
-- Reply: STORED; TOO_LATE: the last call came too late, and no job will run; {waiting, size} for the first call, if the
--   queue cannot take the whole flow, and nothing was stored
-- Codes: stored=1, too_late=0
-- Invariants: no job runs before the whole flow is stored; an incomplete flow is deleted after 10 minutes
-- include: now
-- include: queue/control
local store = flow_engine().store
local opened = store.open(flow)
if not opened then
  if not begins then return TOO_LATE end
  local no_room = total > 0 and check_room(total, dead)
  if no_room then return no_room end
  opened = store.create(flow, total)
  redis.call('ZADD', expiry, -math.floor(now / 1000) - 600000, 'flow ' .. flow)
end
local flow_record = opened.record
if flow_record.state == 'discarding' then return TOO_LATE end
if flow_record.state ~= 'storing' then return STORED end -- a retry of the call
local OPTIONAL = {[2] = 'delay', [4] = 'children', [5] = 'policy', [6] = 'compensation'}
for at = FIRST, #ARGV, STRIDE do
  local number, record, waits = ARGV[at], ARGV[at + 1], ARGV[at + 3]
  if redis.call('HSETNX', jobs, store.job_id(opened, number), record) == 1 then flow_record.stored = flow_record.stored + 1 end
  mark_if_heavy(record)
  store.set(opened, 'waits', number, waits)
  for offset, name in pairs(OPTIONAL) do
    if ARGV[at + offset] ~= '' then store.set(opened, name, number, ARGV[at + offset]) end
  end
end
if not ends then
  store.save(opened)
  return STORED
end
if flow_record.stored < total then return TOO_LATE end
store.set(opened, 'answer', nil, answer)
store.set(opened, 'children', 0, roots)
if total > 0 then redis.call('HINCRBY', flows, '#', total) end
redis.call('HINCRBY', stats, 'enqueued', total)
redis.call('ZREM', expiry, 'flow ' .. flow)
flow_record.state = 'running'
opened.steps = {{parent = 0, at = 1}}
carry_on({}, window)
return STORED
