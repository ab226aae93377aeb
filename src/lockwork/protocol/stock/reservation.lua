-- Reads one reservation.
-- Flags: no-writes
-- KEYS: <stock/stock>
-- ARGV: id
-- Reply: {state, buyer, units, ms left, fence}, or {} if it does not exist (it expired, was released or never existed)
-- include: now
-- include: stock/stock
local reservation = read_live_reservation(id)
if not reservation then return {} end
return {reservation.state, reservation.buyer, reservation.units, left_ms(reservation), reservation.fence}
