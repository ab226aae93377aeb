-- Withdraws a buyer's wish: out of the line, and what was handed over or reserved for it goes to the others.
-- KEYS: books, holds
-- ARGV: id, 1 to give back also what was claimed
-- Reply: 1
-- Invariants: a sale stays a sale
-- include: now
-- include: stock
-- include: stock_line
redis.call('HDEL', books, '') -- a script that has deleted may go on writing when the server is out of memory
expire()
leave(ARGV[1])
local kept = reservation(ARGV[1])
if kept and kept[1] == 'h' and (kept[7] or ARGV[2] == '1') then put_back(ARGV[1], kept) end
serve()
alert()
return 1
