-- Starts this period's run in the caller, or returns the run's outcome or its running state.
-- KEYS: once
-- ARGV: own_owner, own_request, lease: number, period: number, channel, again_if_lost: flag, awaited_fence: number
--   lease, period: ms; channel: '' for no message
--   awaited_fence: of the run that the caller waits for (0: none)
-- Reply: {RUN, fence, deadline us, now us}; {RUNNING, fence, us until the next call};
--   {ENDED, fence, state, value}: d(one), f(ailed) or l(ost)
-- Codes: run=1, running=0, ended=2
-- Invariants: one run per period; no run during the lease of another; the fence rises
-- include: now
-- include: synchronizers/once
if stored_state == 'r' and request == own_request then
  -- a repeated call after a lost reply: the run has not started, so its lease may have ended
  deadline = math.max(deadline, now + lease * 1000)
  redis.call('HSET', once, 'd', deadline, 'l', lease)
  set_expiry(math.max(ends, deadline))
  return {RUN, fence, deadline, now}
end
-- synchronizers/parts/once.lua has shortened one of them, because the clock was set back
if state ~= '' and (string.format('%.0f', deadline) ~= stored_deadline or string.format('%.0f', ends) ~= stored_ends) then
  redis.call('HSET', once, 'd', string.format('%.0f', deadline), 'e', string.format('%.0f', ends))
end
if state == 'r' then
  if channel ~= '' and redis.call('HLEN', once) < MOST_CHANNELS then redis.call('HSETNX', once, 'w' .. channel, 1) end
  return {RUNNING, fence, math.min(deadline - now, CHECK_MS * 1000)}
elseif state ~= '' and not (state == 'l' and again_if_lost) and (ends > now or fence == awaited_fence) then
  return {ENDED, fence, state, redis.call('HGET', once, 'v') or ''}
end

if is_known(once, 'x', own_request) then return {RUNNING, 0, CHECK_MS * 1000} end -- its caller gave up
fence = math.max(fence + 1, now)
deadline = now + lease * 1000
ends = now + period * 1000
redis.call('HSET', once, 's', 'r', 'o', own_owner, 'q', own_request, 'f', fence, 'd', deadline, 'l', lease, 'e', ends, 'p', period)
redis.call('HDEL', once, 'v')
set_expiry(math.max(ends, deadline))
return {RUN, fence, deadline, now}
