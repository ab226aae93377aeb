-- Reads the units of stocks, as the last call that changed each left them.
-- KEYS: stocks*
-- Reply: per stock: {total, sold, held, expired}; total is false when it does not exist
local reply = {}
for _, stock in ipairs(stocks) do reply[#reply + 1] = redis.call('HMGET', stock, 'total', 'sold', 'held', 'expired') end
return reply
