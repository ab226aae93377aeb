-- What runs once per period, one hash: s state: r(unning), d(one), f(ailed), l(ost), or none; o, q owner and request of the run;
-- f its fence; d when its lease ends, us, l how long that is, ms; e when the period ends, us, p how long it is, ms; v its result or failure; w<request> = channel of who
-- waits; x, z the requests of the last calls that gave up and of the last resets.
local once = KEYS[1]
local LOOK = 5000 -- ms after which whoever waits looks again by itself
local MARGIN = 75000 -- ms that the key outlives its period and its run
local MANY = 2000 -- callers told at once; more look by themselves
local found = redis.call('HMGET', once, 's', 'o', 'q', 'f', 'd', 'e', 'l', 'p')
local state, owner, request, fence = found[1] or '', found[2], found[3], tonumber(found[4] or 0)
local deadline, ends = tonumber(found[5] or 0), tonumber(found[6] or 0)
-- what lies further ahead than it is long began before the clock was set back: it counts from now on
if found[7] then deadline = math.min(deadline, now + found[7] * 1000) end
if found[8] then ends = math.min(ends, now + found[8] * 1000) end
-- the runner's lease decides, whoever looks; nobody writes it down
if state == 'r' and deadline <= now then state = 'l' end

local function keep(until_us)
  redis.call('PEXPIRE', once, math.max(math.ceil((math.max(until_us, fence) - now) / 1000), 0) + MARGIN)
end

-- include: requests
-- include: publish

-- Tell everybody who waits.
local function wake()
  local fields, told = redis.call('HGETALL', once), 0
  for at = 1, #fields, 2 do
    if string.sub(fields[at], 1, 1) == 'w' and told < MANY then
      publish(fields[at + 1], string.sub(fields[at], 2))
      redis.call('HDEL', once, fields[at])
      told = told + 1
    end
  end
end
