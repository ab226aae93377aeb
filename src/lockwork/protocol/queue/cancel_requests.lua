-- Finds the jobs of a worker that have a cancellation request.
-- KEYS: job_notes; run
-- ARGV: (id, token)
-- Reply: the ids
-- Invariants: reads only
if redis.call('HLEN', job_notes) == 0 then return {} end
local asked = {}
for at = FIRST, #ARGV, STRIDE do
  local id, token = ARGV[at], ARGV[at + 1]
  local note = redis.call('HGET', job_notes, id)
  if note and string.sub(note, 1, 1) == '1' and redis.call('HGET', run, id) == token then
    asked[#asked + 1] = id
  end
end
return asked
