-- Withdraws a request: out of the line if it waits; given back if it was granted meanwhile.
-- KEYS: permits
-- ARGV: owner, request
-- Reply: 1
-- Invariants: grants of other requests stay as they are
-- include: now
redis.call('HDEL', KEYS[1], '') -- a script that has deleted may go on writing when the server is out of memory
-- include: permits
-- include: permits_line
if count == 0 and line.count <= 0 then return 1 end
local id = redis.call('HGET', books, 'r' .. ARGV[2])
local held = holder(id)
if held then drop(id, held) else leave(ARGV[2]) end
if line.count > 0 then
  sweep()
  serve('')
end
save()
return 1
