-- What runs once per period, one hash: s state: r(unning), d(one), f(ailed), l(ost), or none; o, q owner and request of the run;
-- f its fence; d when its lease ends, us; e when the period ends, us; v its result or failure; w<channel> = end of a waiting
-- process's place, us; x, z the requests of the last calls that gave up and of the last resets.
local once = KEYS[1]
local PLACE = 15000 -- ms that a process is told unless it asks again
local LOOK = 5000 -- ms after which whoever waits looks again by itself
local MARGIN = 60000 -- ms that the key outlives its period and its run
local found = redis.call('HMGET', once, 's', 'o', 'q', 'f', 'd', 'e')
local state, owner, request, fence = found[1] or '', found[2], found[3], tonumber(found[4] or 0)
local deadline, ends = tonumber(found[5] or 0), tonumber(found[6] or 0)
-- the runner's lease decides, whoever looks; nobody writes it down
if state == 'r' and deadline <= now then state = 'l' end

local function keep(until_us)
  redis.call('PEXPIRE', once, math.max(math.ceil((until_us - now) / 1000), PLACE) + MARGIN)
end

-- The last hundred requests of a kind.
local function known(field, id)
  return string.find(redis.call('HGET', once, field) or '', id, 1, true)
end

local function remember(field, id)
  redis.call('HSET', once, field, string.sub(id .. ' ' .. (redis.call('HGET', once, field) or ''), 1, 5000))
end

-- Tell every process that waits, each with one message.
local function wake()
  local fields = redis.call('HGETALL', once)
  for at = 1, #fields, 2 do
    if string.sub(fields[at], 1, 1) == 'w' then
      if tonumber(fields[at + 1]) > now then
        redis.call('PUBLISH', string.sub(fields[at], 2), string.format('%s %.0f', once, fence))
      end
      redis.call('HDEL', once, fields[at])
    end
  end
end
