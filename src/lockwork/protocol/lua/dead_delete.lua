-- Deletes dead jobs; those that are not dead any more, or died again since they were looked at, are left alone.
-- KEYS: dead, jobs, errors, tries, stats, notes, log of this operation
-- ARGV: step, then for each job: id, its time in the dead set as it was read ('': whatever it is)
-- Reply: {how many were dealt with, how many were deleted}; the rest is for the next call
-- Invariants: a job goes with its record, its error, its notes and its attempts; how it ended is told as long as results are kept
-- include: step
-- include: forget
local ids, bytes, looked = {}, 0, 0
for at = 2, #ARGV, 2 do
  if bytes > BYTES then break end
  looked = looked + 1
  local died = redis.call('ZSCORE', dead, ARGV[at])
  if died and (ARGV[at + 1] == '' or ARGV[at + 1] == died) then
    ids[#ids + 1] = ARGV[at]
    bytes = bytes + weight(ARGV[at])
  end
end
forget(ids)
return keep({looked, #ids})
