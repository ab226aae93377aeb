-- Finds the jobs that are leased to a worker session, and that its process does not have.
-- KEYS: workers; run
-- ARGV: session, (id, token)
--   id: of a job that the process has
-- Reply: {id, token, ...}; none if the session is over
-- Invariants: reads only
if (redis.call('ZSCORE', workers, session) or '0') == '0' then return {} end
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
