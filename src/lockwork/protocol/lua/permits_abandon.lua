-- Withdraws a request: out of the line if it waits; given back if it was granted meanwhile.
-- KEYS: permits
-- ARGV: owner, request
-- Out of memory: goes on
-- Reply: 1
-- Invariants: grants of other requests stay as they are
-- include: now
-- include: permits
-- include: permits_line
if count == 0 and line.count <= 0 then return 1 end
local id = redis.call('HGET', permits, 'r' .. request)
local held = holder(id)
if held then drop(id, held) else leave(request) end
if line.count > 0 then
  sweep()
  serve('')
end
save()
return 1
