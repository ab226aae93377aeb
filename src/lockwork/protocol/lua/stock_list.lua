-- Reads reservations, some at a time.
-- KEYS: <stock>
-- ARGV: cursor, buyer, fields
--   cursor: '0' at first; buyer: '': all; fields: how many to look at
-- Reply: {next cursor, or '0' at the end, then per reservation: id, state, buyer, units, ms left, fence}
-- Invariants: what exists from the first call to the last is seen, and may be seen twice
-- include: now
-- include: stock
local found = redis.call('HSCAN', stock, cursor, 'MATCH', 'r*', 'COUNT', fields)
local reply = {found[1]}
for at = 1, #found[2], 2 do
  local kept = cmsgpack.unpack(found[2][at + 1])
  if (kept[1] == 'c' or kept[5] > clock) and (buyer == '' or kept[2] == buyer) then
    local left = kept[1] == 'h' and math.ceil((kept[5] - clock) / 1000) or 0
    for _, part in ipairs({string.sub(found[2][at], 2), kept[1], kept[2], kept[3], left, kept[6]}) do
      reply[#reply + 1] = part
    end
  end
end
return reply
