-- Takes a lock whose value is its end time, if it is free or its time is past.
-- KEYS: key
-- ARGV: digits, lease: number, wanted: number
--   digits: unique to this acquisition; lease: ms; wanted: us in one unit of time
-- Reply: {GRANTED, deadline us, now us} granted; {NOT_GRANTED, ms left, now us} taken; {UNUSABLE, error text}
-- Codes: <locks/reply>, unusable=-1
-- Invariants: a value whose time lies ahead does not change, also without an expiry: a take-over by SET sets none
-- include: now
-- include: formats/endtime
local kind = redis.call('TYPE', key).ok
if kind == 'string' then
  local _, ends, per, owner = read(key)
  if not ends then return {UNUSABLE, 'holds a value that is not a time'} end
  if per ~= wanted then return {UNUSABLE, 'holds a time in ' .. (per == 1000 and 'milliseconds' or 'seconds') .. ': say so by unit='} end
  if owner ~= digits and ends > now then
    local left, expiry = math.ceil((ends - now) / 1000), redis.call('PTTL', key)
    return {NOT_GRANTED, expiry >= 0 and math.min(left, expiry) or left, now}
  end
elseif kind ~= 'none' then
  return {UNUSABLE, 'shares its key with a ' .. kind .. ', and all its users must agree on the form'}
end
return {GRANTED, write(key, digits, now + lease * 1000, wanted), now}
