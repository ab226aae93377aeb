-- Withdraws a buyer's wish: out of the line, and what was handed over or reserved for it goes to the others.
-- KEYS: <stock>
-- ARGV: id, claimed: flag
--   claimed: give back also what was claimed
-- Out of memory: goes on
-- Reply: 1
-- Invariants: a sale stays a sale
-- include: now
-- include: stock
-- include: stock_line
expire()
leave(id)
local kept = reservation(id)
if kept and kept[1] == 'h' and (kept[7] or claimed) then put_back(id, kept) end
serve()
alert()
return 1
