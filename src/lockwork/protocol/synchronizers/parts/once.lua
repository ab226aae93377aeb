-- Runs once per period, one hash: s state r(unning), d(one), f(ailed), l(ost), or none; o, q owner and request of the
-- run; f its fence; d end of its lease (us), l lease (ms); e end of the period (us), p period (ms); v result or
-- failure; w<channel> of a process with a waiter; x, z requests of the last calls that gave up and of the last resets.
-- KEYS: once
-- include: now
-- include: lifetimes
local CHECK_MS = 5000 -- interval between a waiter's checks without a message
local MOST_CHANNELS = 1000 -- processes that are notified; waiters of others only check
local stored_state, owner, request, stored_fence, stored_deadline, stored_ends, held_lease, held_period =
  unpack(redis.call('HMGET', once, 's', 'o', 'q', 'f', 'd', 'e', 'l', 'p'))
local state, fence = stored_state or '', tonumber(stored_fence or 0)
local deadline, ends = tonumber(stored_deadline or 0), tonumber(stored_ends or 0)
-- a lease or a period that ends further ahead than it is long began before the clock was set back: it counts from now
-- on
if held_lease then deadline = math.min(deadline, now + held_lease * 1000) end
if held_period then ends = math.min(ends, now + held_period * 1000) end
-- the runner's lease decides at each call; the loss is not written
if state == 'r' and deadline <= now then state = 'l' end

local function set_expiry(until_us)
  outlive(once, math.max(until_us, fence, now) + WAITER_MS * 1000)
end

-- include: requests
-- include: publish

-- Notify each process with a waiter with one message.
local function notify_waiters()
  local notified = {''}
  for _, name in ipairs(redis.call('HKEYS', once)) do
    if string.sub(name, 1, 1) == 'w' then
      publish(string.sub(name, 2), once)
      notified[#notified + 1] = name
    end
  end
  redis.call('HDEL', once, unpack(notified))
end
