-- Stores the jobs of a flow that are in another queue than the flow, in one or more calls. They wait for messages from
-- the flow's queue, its home.
-- KEYS: <queue/control>
-- ARGV: again: flag, flow, total: number, here: number, home, begins: flag, (number, record, delay, undo)
--   again: an earlier try may have been applied; total: number of jobs of the whole flow; here: of this part
--   begins: the first call; record: '' if only the compensation is here; undo: record of the compensation, or ''
-- Indexed: stats
-- Reply: STORED; TOO_LATE: the part was deleted, because the flow was not stored in time; {waiting, size} for the first
--   call, if the queue cannot take the whole part, and nothing was stored
-- Codes: stored=1, too_late=0
-- Invariants: no job runs before the home has sent a message; a part whose home does not know the flow is deleted
-- include: now
-- include: queue/control
local engine = flow_engine()
local store = engine.store
local opened = store.open(flow)
if not opened then
  if not begins then return TOO_LATE end
  local no_room = here > 0 and check_room(here, dead)
  if no_room then return no_room end
  opened = store.create(flow, total)
  opened.record.home = home
  engine.visit_after(opened, engine.ASK_STORING)
end
local part = opened.record
if part.state == 'discarding' then return TOO_LATE end
if part.state ~= 'storing' then return STORED end -- a retry of the call
for at = FIRST, #ARGV, STRIDE do
  local number, record, delay, undo = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  if record ~= '' then
    if redis.call('HSETNX', jobs, store.job_id(opened, number), record) == 1 then part.stored = part.stored + 1 end
    mark_if_heavy(record)
    store.set(opened, 'waits', number, 1)
  end
  if delay ~= '' then store.set(opened, 'delay', number, delay) end
  if undo ~= '' then store.set(opened, 'compensation', number, undo) end
end
store.save(opened)
return STORED
