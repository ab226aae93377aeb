-- Reads the units of stocks, as the last call that changed each left them.
-- KEYS: stocks*
-- ARGV: minutes: number
--   minutes: how many minutes to read what was reserved and sold in, up to now
-- Reply: per stock: {total, sold, held, expired, then per minute with any: how long ago, reserved, sold}; total is false when it
--   does not exist
-- include: now
local reply = {}
for _, stock in ipairs(stocks) do
  local units = redis.call('HMGET', stock, 'total', 'sold', 'held', 'expired')
  if minutes > 0 then
    local clock = redis.call('HGET', stock, 'clock')
    local newest, names = math.floor(math.max(now, tonumber(clock or 0)) / 60000000), {}
    for ago = 0, minutes - 1 do
      names[2 * ago + 1], names[2 * ago + 2] = 'm' .. newest - ago .. 'r', 'm' .. newest - ago .. 's'
    end
    local found = redis.call('HMGET', stock, unpack(names))
    for ago = 0, minutes - 1 do
      local reserved, sold = found[2 * ago + 1], found[2 * ago + 2]
      if reserved or sold then
        units[#units + 1], units[#units + 2], units[#units + 3] = ago, tonumber(reserved or 0), tonumber(sold or 0)
      end
    end
  end
  reply[#reply + 1] = units
end
return reply
