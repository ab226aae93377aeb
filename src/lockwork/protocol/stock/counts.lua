-- Reads the units of stocks as stored; expired reservations that no call has ended yet still count.
-- Flags: no-writes
-- KEYS: stocks*
-- ARGV: minutes: number
--   minutes: number of minutes, up to now, of reserved and sold units to read
-- Reply: per stock: {total, sold, held, expired, then per minute with any: minutes ago, reserved, sold}; total is false
--   when it does not exist
-- include: now
local RETAINED_MINUTES = 60
minutes = math.min(RETAINED_MINUTES, minutes) -- a viewer may call it with any number
local reply = {}
for _, stock in ipairs(stocks) do
  local row = redis.call('HMGET', stock, 'total', 'sold', 'held', 'expired')
  if minutes > 0 then
    local clock = redis.call('HGET', stock, 'clock')
    local newest, names = math.floor(math.max(now, tonumber(clock or 0)) / 60000000), {}
    for ago = 0, minutes - 1 do
      names[2 * ago + 1], names[2 * ago + 2] = 'm' .. newest - ago .. 'r', 'm' .. newest - ago .. 's'
    end
    local counts = redis.call('HMGET', stock, unpack(names))
    for ago = 0, minutes - 1 do
      local reserved, sold = counts[2 * ago + 1], counts[2 * ago + 2]
      if reserved or sold then
        row[#row + 1], row[#row + 2], row[#row + 3] = ago, tonumber(reserved or 0), tonumber(sold or 0)
      end
    end
  end
  reply[#reply + 1] = row
end
return reply
