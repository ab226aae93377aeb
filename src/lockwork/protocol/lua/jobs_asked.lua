-- Finds out which of a worker's jobs are to be cancelled.
-- KEYS: run, notes
-- ARGV: id and token of each job
-- Reply: the ids
-- Invariants: reads only
if redis.call('HLEN', KEYS[2]) == 0 then return {} end
local asked = {}
for at = 1, #ARGV, 2 do
  local note = redis.call('HGET', KEYS[2], ARGV[at])
  if note and string.sub(note, 1, 1) == '1' and redis.call('HGET', KEYS[1], ARGV[at]) == ARGV[at + 1] then
    asked[#asked + 1] = ARGV[at]
  end
end
return asked
