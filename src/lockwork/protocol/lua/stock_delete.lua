-- Forgets a stock: its units, sales, reservations and waiting line.
-- KEYS: gone, books, holds
-- ARGV: request
-- Reply: 1 deleted, now or before; 0 there was none
-- Invariants: a request deletes once, so that a stock which was opened anew stays
-- include: now
-- include: stock
-- include: stock_line
redis.call('HDEL', books, '') -- a script that has deleted may go on writing when the server is out of memory
local gone = redis.call('GET', KEYS[1]) or ''
if string.find(gone, ARGV[1], 1, true) then return 1 end
if redis.call('EXISTS', books) == 0 then return 0 end
alert()
redis.call('UNLINK', books, holds)
redis.call('SET', KEYS[1], string.sub(ARGV[1] .. ' ' .. gone, 1, 1700), 'PX', 120000)
return 1
