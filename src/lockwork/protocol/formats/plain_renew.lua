-- Renews many locks that are string keys, in one step. A lock whose key has another token has ended.
-- KEYS: keys*
-- ARGV: (token, fence, lease)
--   of each key; fence: unused; lease: ms
-- Reply: per key the new deadline us, or 0 when the grant is over, or an error's text; last, now us
-- Invariants: an expiry only grows, and only its owner's
-- include: now
-- include: alone
local reply = {}
for index, key in ipairs(keys) do
  local at = FIRST + (index - 1) * STRIDE
  local token, lease = ARGV[at], tonumber(ARGV[at + 2])
  local problem = alone(function()
    reply[index] = 0
    if redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) == token then
      local left = math.max(redis.call('PTTL', key), lease)
      redis.call('PEXPIRE', key, left)
      reply[index] = now + (left - 1) * 1000
    end
  end)
  if problem then reply[index] = problem end
end
reply[#reply + 1] = now
return reply
