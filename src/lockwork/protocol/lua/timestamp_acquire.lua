-- Takes a lock whose value is the time at which it ends: a free one, or one whose time is past.
-- KEYS: key
-- ARGV: digits, lease: number, wanted: number
--   digits: ours; lease: ms; wanted: us in one unit of time
-- Reply: {1, deadline us, now us} granted; {0, ms left, now us} taken; {-1, what is wrong}
-- Invariants: a value whose time lies ahead stays as it is, also without an expiry: a take-over by SET sets none
-- include: now
-- include: endtime
local kind = redis.call('TYPE', key).ok
if kind == 'string' then
  local _, ends, per, owner = read(key)
  if not ends then return {-1, 'holds a value that is not a time'} end
  if per ~= wanted then return {-1, 'holds a time in ' .. (per == 1000 and 'milliseconds' or 'seconds') .. ': say so by unit='} end
  if owner ~= digits and ends > now then
    local left, expiry = math.ceil((ends - now) / 1000), redis.call('PTTL', key)
    return {0, expiry >= 0 and math.min(left, expiry) or left, now}
  end
elseif kind ~= 'none' then
  return {-1, 'shares its key with a ' .. kind .. ', and all its users must agree on the form'}
end
return {1, write(key, digits, now + lease * 1000, wanted), now}
