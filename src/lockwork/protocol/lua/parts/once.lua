-- What runs once per period, one hash: s state: r(unning), d(one), f(ailed), l(ost), or none; o, q owner and request of the run;
-- f its fence; d when its lease ends, us, l how long that is, ms; e when the period ends, us, p how long it is, ms; v its result or failure; w<channel> of a
-- process with a waiter; x, z the requests of the last calls that gave up and of the last resets.
-- KEYS: once
-- include: now
-- include: lifetimes
local LOOK = 5000 -- ms after which a waiter looks again without a message
local MANY = 1000 -- processes that are notified; the callers of others look by themselves
local found = redis.call('HMGET', once, 's', 'o', 'q', 'f', 'd', 'e', 'l', 'p')
local state, owner, request, fence = found[1] or '', found[2], found[3], tonumber(found[4] or 0)
local deadline, ends = tonumber(found[5] or 0), tonumber(found[6] or 0)
-- what lies further ahead than it is long began before the clock was set back: it counts from now on
if found[7] then deadline = math.min(deadline, now + found[7] * 1000) end
if found[8] then ends = math.min(ends, now + found[8] * 1000) end
-- the runner's lease decides at each look; the end is not written
if state == 'r' and deadline <= now then state = 'l' end

local function keep(until_us)
  outlive(once, math.max(until_us, fence, now) + WAITER * 1000)
end

-- include: requests
-- include: publish

-- Notify every process with a waiter, with one message.
local function wake()
  local notified = {''}
  for _, name in ipairs(redis.call('HKEYS', once)) do
    if string.sub(name, 1, 1) == 'w' then
      publish(string.sub(name, 2), once)
      notified[#notified + 1] = name
    end
  end
  redis.call('HDEL', once, unpack(notified))
end
