-- Reads one reservation.
-- KEYS: <stock>
-- ARGV: id
-- Reply: {state, buyer, units, ms left, fence}, or {} when there is none (it expired, was released or never was)
-- include: now
-- include: stock
local kept = reservation(id)
if not kept or (kept[1] == 'h' and kept[5] <= clock) then return {} end
return {kept[1], kept[2], kept[3], kept[1] == 'h' and math.ceil((kept[5] - clock) / 1000) or 0, kept[6]}
