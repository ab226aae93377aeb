-- Reads some reservations.
-- Flags: no-writes
-- KEYS: <stock/stock>
-- ARGV: cursor, buyer, fields
--   cursor: '0' at first; buyer: '': all; fields: number of fields to read
-- Reply: {next cursor, or '0' at the end, then per reservation: id, state, buyer, units, ms left, fence}
-- Invariants: a reservation that exists from the first call to the last is returned, perhaps twice
-- include: now
-- include: stock/stock
local next_cursor, pairs_of_fields = unpack(redis.call('HSCAN', stock, cursor, 'MATCH', 'r*', 'COUNT', fields))
local reply = {next_cursor}
for at = 1, #pairs_of_fields, 2 do
  local reservation = unpack_reservation(pairs_of_fields[at + 1])
  if is_live(reservation) and (buyer == '' or reservation.buyer == buyer) then
    local id = string.sub(pairs_of_fields[at], 2)
    local row = {id, reservation.state, reservation.buyer, reservation.units, left_ms(reservation), reservation.fence}
    for _, value in ipairs(row) do reply[#reply + 1] = value end
  end
end
return reply
