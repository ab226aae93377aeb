-- endtime: a lock whose value is its end, a Unix time in seconds or milliseconds, as decimal text.
-- Lockwork's values have nine decimals that identify the acquisition, and so its owner. A value with fewer decimals was
-- cut: its holder may stay until the end of its last digit, and other clients compare it with a cut time, too.
-- include: now
local OURS = '^%d+%.(%d%d%d%d%d%d%d%d%d)$'
local MILLISECONDS = 100000000000 -- a larger number is in milliseconds: in seconds, it would be after the year 5138

-- Return the value; its end (us), nil if it is not a time; us in one unit of it; its digits, nil for another client's
-- value.
local function read(key)
  local value = redis.call('GET', key)
  local decimals = #value <= 40 and string.match(value, '^%d+%.?(%d*)$')
  if not decimals then return value end
  local number = tonumber(value)
  local per = number > MILLISECONDS and 1000 or 1000000
  local cut = #decimals < 9 and per / 10 ^ #decimals or 0
  return value, math.floor(number * per + cut), per, string.match(value, OURS)
end

-- Write the first time not before `ends` with these digits, and the expiry with it. Return the deadline.
local function write(key, digits, ends, per)
  local fraction = tonumber('0.' .. digits) * per
  local whole = math.floor(ends / per)
  if fraction < ends - whole * per then whole = whole + 1 end
  local till = math.floor(whole * per + fraction)
  redis.call('SET', key, string.format('%d.%s', whole, digits), 'PX', math.ceil((till - now) / 1000))
  -- an expiry is in whole milliseconds, and may count from up to 1 ms before `now`
  return till - 1000
end
