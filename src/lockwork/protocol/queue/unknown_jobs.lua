-- Finds the jobs that are leased to a worker session but unknown to its process.
-- KEYS: workers; run
-- ARGV: session, (id, token)
--   id: a job that the process has
-- Reply: {id, token, ...}; empty if the session is over
-- Invariants: reads only
-- include: queue/sessions
if is_over(session) then return {} end
local known = {}
for at = FIRST, #ARGV, STRIDE do known[ARGV[at]] = ARGV[at + 1] end
local strays, held = {}, redis.call('HGETALL', run)
for at = 1, #held, 2 do
  if known[held[at]] ~= held[at + 1] then
    strays[#strays + 1] = held[at]
    strays[#strays + 1] = held[at + 1]
  end
end
return strays
