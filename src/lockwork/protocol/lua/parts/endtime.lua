-- endtime: a lock whose value is the Unix time at which it ends, in seconds or milliseconds, as decimal text.
-- Ours have nine digits behind the point that tell one acquisition from all others, and so its owner.
-- include: now
local OURS = '^%d+%.(%d%d%d%d%d%d%d%d%d)$'
local MILLISECONDS = 100000000000 -- a number above this is milliseconds: as seconds it were the year 5138

-- the value; its end in us, nil if it is not a time; us in one unit of it; its digits, nil if it is not ours
local function read(key)
  local value = redis.call('GET', key)
  local number = #value <= 40 and string.match(value, '^%d+%.?%d*$') and tonumber(value)
  if not number then return value end
  local per = number > MILLISECONDS and 1000 or 1000000
  return value, math.floor(number * per), per, string.match(value, OURS)
end

-- writes the first time not before `ends` that has these digits, and the expiry with it; returns the deadline
local function write(key, digits, ends, per)
  local fraction = tonumber('0.' .. digits) * per
  local whole = math.floor(ends / per)
  if fraction < ends - whole * per then whole = whole + 1 end
  local till = math.floor(whole * per + fraction)
  redis.call('SET', key, string.format('%d.%s', whole, digits), 'PX', math.ceil((till - now) / 1000))
  -- an expiry has whole milliseconds and may count from up to one before `now`
  return till - 1000
end
