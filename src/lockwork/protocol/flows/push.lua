-- Enqueues a flow, in one or more calls. Jobs are visible only after the last call.
-- KEYS: <queue/control>
-- ARGV: again: flag, window: number, flow, total, begins: flag, ends: flag, answer, roots,
--   (number, record, delay, waits, children, policy, undo)
--   again: an earlier try may have been applied; window: ms; total: number of jobs, or `JOBS/HERE` if only some
--     are in this queue; begins, ends: the first, the last call
--   answer, roots: in the last call: the jobs whose results are the flow's result, and the jobs without parents
--   waits: number of parents; `PARENTS/CAUSES` if the job runs only after the failure of at least one of CAUSES parents
--   children: numbers of the jobs that wait for it, negative if a job runs only after its failure
--   undo: record of its compensation ('' without one); lists are MessagePack
--   record, undo: `>QUEUE` for a job or a compensation that is in another queue (flows/push_part)
-- Indexed: stats
-- Reply: STORED; TOO_LATE: the last call came too late, and no job will run; {waiting, size} for the first call, if the
--   queue cannot take the whole flow, and nothing was stored
-- Codes: stored=1, too_late=0
-- Invariants: no job runs before the whole flow is stored; an incomplete flow is deleted after 10 minutes
-- include: now
-- include: queue/control
local store = flow_engine().store
local opened = store.open(flow)
local all, here = string.match(total, '^(%d+)/?(%d*)$')
all, here = tonumber(all), tonumber(here) or tonumber(all)
if not opened then
  if not begins then return TOO_LATE end
  local no_room = here > 0 and check_room(here, dead)
  if no_room then return no_room end
  opened = store.create(flow, all)
  redis.call('ZADD', expiry, -math.floor(now / 1000) - 600000, 'flow ' .. flow)
end
local flow_record = opened.record
if flow_record.state == 'discarding' then return TOO_LATE end
if flow_record.state ~= 'storing' then return STORED end -- a retry of the call
-- Return the queue in `>QUEUE`, and note that the flow has a part there.
local function elsewhere(record)
  local name = string.match(record, '^>(.+)$')
  if name then
    flow_record.parts = flow_record.parts or {}
    flow_record.parts[name] = 1
  end
  return name
end

local OPTIONAL = {[2] = 'delay', [4] = 'children', [5] = 'policy', [6] = 'compensation'}
for at = FIRST, #ARGV, STRIDE do
  local number, record = ARGV[at], ARGV[at + 1]
  local waits, causes = string.match(ARGV[at + 3], '^(%d+)/?(%d*)$')
  local other, undo_queue = elsewhere(record), elsewhere(ARGV[at + 6])
  if other then
    flow_record.stored = flow_record.stored + redis.call('HSETNX', flows, store.field(opened, 'queue', number), other)
  else
    if redis.call('HSETNX', jobs, store.job_id(opened, number), record) == 1 then flow_record.stored = flow_record.stored + 1 end
    mark_if_heavy(record)
  end
  if undo_queue then
    store.set(opened, 'undo_queue', number, undo_queue)
    ARGV[at + 6] = ''
  end
  store.set(opened, 'waits', number, waits)
  if causes ~= '' then store.set(opened, 'causes', number, causes) end
  for offset, name in pairs(OPTIONAL) do
    if ARGV[at + offset] ~= '' then store.set(opened, name, number, ARGV[at + offset]) end
  end
end
if not ends then
  store.save(opened)
  return STORED
end
if flow_record.stored < all then return TOO_LATE end
store.set(opened, 'answer', nil, answer)
store.set(opened, 'children', 0, roots)
flow_engine().begin(opened, here)
opened.steps = {{parent = 0, at = 1}}
carry_on({}, window)
return STORED
