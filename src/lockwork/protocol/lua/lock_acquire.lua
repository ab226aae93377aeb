-- Grants the lock, or gives the caller a place in the waiting line, or refuses; called again, it refreshes either.
-- KEYS: lock
-- ARGV: owner, request, lease ms, claim ms, 1 to wait or 0, channel, secret that seals a hand-over
-- Reply: {1, fence, deadline us, now us} granted; {0, check ms, now us} not granted, look again after that
--   time (0: refused)
-- Invariants: no grant while another deadline lies ahead; the fence rises; the line is served in order
-- include: now
local held = redis.call('HMGET', KEYS[1], 'f', 'd', 't')
if not held[3] and (held[2] or '0') == '0' and (tonumber(held[1]) or 0) < now then
  -- released, and nobody ever waited: the parts below would do the same, but to define their functions takes longer
  local ms = tonumber(ARGV[3])
  local ends = now + ms * 1000
  redis.call('HSET', KEYS[1], 'o', ARGV[1], 'r', ARGV[2], 'f', now, 'd', ends, 'l', ms)
  redis.call('PEXPIRE', KEYS[1], math.max(ms, 15000) + 60000) -- as keep() in line.lua
  return {1, now, ends, now}
end
-- include: line
-- include: ask
return ask(ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7])
