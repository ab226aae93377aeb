-- Deletes a schedule that was created at run time.
-- KEYS: <schedules/looks>
-- ARGV: again: flag, name
-- Reply: DELETED; UNKNOWN; DECLARED: live code has it
-- Codes: deleted=1, unknown=0, declared=2
-- Invariants: after the deletion, no slot is enqueued
-- Out of memory: goes on
-- include: schedules/looks
if load(created, name) then
  delete(name)
  return DELETED
end
if is_declared(name) then return DECLARED end
return again and DELETED or UNKNOWN
