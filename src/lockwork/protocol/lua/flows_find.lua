-- Finds flows, by one step of a scan.
-- KEYS: flows: hash
-- ARGV: cursor, match, step: number
--   match: the pattern of flows' ids; step: how many fields a step looks at
-- Reply: {next cursor, fields of the hash, then per flow: id, record}
-- Invariants: what exists from the first call to the last is seen, and may be seen twice
local found = redis.call('HSCAN', flows, cursor, 'MATCH', match, 'COUNT', step)
local reply = {found[1], redis.call('HLEN', flows)}
for _, part in ipairs(found[2]) do reply[#reply + 1] = part end
return reply
