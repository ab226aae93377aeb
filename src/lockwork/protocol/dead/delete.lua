-- Deletes dead jobs, except jobs that left the dead set, or died again, since the caller read them.
-- KEYS: <dead/forget>; log
-- ARGV: step: number, (id, died)
--   died: its time in the dead set, as the caller read it ('': any)
-- Out of memory: goes on
-- Reply: {ids processed, jobs deleted}; the next call processes the other ids
-- Invariants: a job is deleted with its record, error, notes and attempts; its outcome stays until results expire
-- include: step
-- include: dead/forget
local ids, bytes, looked = {}, 0, 0
for at = FIRST, #ARGV, STRIDE do
  if bytes > BYTES then break end
  looked = looked + 1
  local id, read = ARGV[at], ARGV[at + 1]
  local died = redis.call('ZSCORE', dead, id)
  if died and (read == '' or read == died) then
    ids[#ids + 1] = id
    bytes = bytes + weight(id)
  end
end
forget(ids)
return keep({looked, #ids})
