-- Deletes dead jobs; those that are not dead any more, or died again since they were looked at, are left alone.
-- KEYS: <forget>; log
-- ARGV: step: number, (id, died)
--   died: its time in the dead set as it was read ('': whatever it is)
-- Out of memory: goes on
-- Reply: {how many were dealt with, how many were deleted}; the rest is for the next call
-- Invariants: a job goes with its record, its error, its notes and its attempts; how it ended is told as long as results are kept
-- include: step
-- include: forget
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
