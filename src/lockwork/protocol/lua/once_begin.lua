-- Lets the caller run, or returns how the run of this period ended, or that it runs now.
-- KEYS: once
-- ARGV: asker, asked, lease: number, period: number, channel, again_if_lost: flag, seen: number
--   asker, asked: owner and request; lease, period: ms; channel: '': do not notify
--   seen: fence of the run that the caller waits for (0: none)
-- Reply: {1, fence, deadline us, now us} run it; {0, fence, us until the caller should look again} it runs;
--   {2, fence, state, value} it has ended: d(one), f(ailed) or l(ost)
-- Invariants: one run per period; no run while another one's lease lasts; the fence rises
-- include: now
-- include: once
if found[1] == 'r' and request == asked then
  -- our own run, met again after a lost reply; it has not begun yet, so it does not matter how long that took
  deadline = math.max(deadline, now + lease * 1000)
  redis.call('HSET', once, 'd', deadline, 'l', lease)
  keep(math.max(ends, deadline))
  return {1, fence, deadline, now}
end
-- the clock was set back: once.lua has shortened one of them
if state ~= '' and (string.format('%.0f', deadline) ~= found[5] or string.format('%.0f', ends) ~= found[6]) then
  redis.call('HSET', once, 'd', string.format('%.0f', deadline), 'e', string.format('%.0f', ends))
end
if state == 'r' then
  if channel ~= '' and redis.call('HLEN', once) < MANY then redis.call('HSETNX', once, 'w' .. channel, 1) end
  return {0, fence, math.min(deadline - now, LOOK * 1000)}
elseif state ~= '' and not (state == 'l' and again_if_lost) and (ends > now or fence == seen) then
  return {2, fence, state, redis.call('HGET', once, 'v') or ''}
end

if known(once, 'x', asked) then return {0, 0, LOOK * 1000} end -- its caller has given up
fence = math.max(fence + 1, now)
deadline = now + lease * 1000
ends = now + period * 1000
redis.call('HSET', once, 's', 'r', 'o', asker, 'q', asked, 'f', fence, 'd', deadline, 'l', lease, 'e', ends, 'p', period)
redis.call('HDEL', once, 'v')
keep(math.max(ends, deadline))
return {1, fence, deadline, now}
