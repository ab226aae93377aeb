-- Renews many locks that are string keys in one step; a key that has another token by now is over.
-- KEYS: key, one or more
-- ARGV: token, fence (unused), lease ms; three for each key
-- Reply: per key the new deadline us, or 0 when the grant is over, or an error's text; last, now us
-- Invariants: an expiry only grows, and only its owner's
-- include: now
-- include: alone
local reply = {}
for index, key in ipairs(KEYS) do
  local at = 3 * index - 2
  local problem = alone(function()
    reply[index] = 0
    if redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) == ARGV[at] then
      local left = math.max(redis.call('PTTL', key), tonumber(ARGV[at + 2]))
      redis.call('PEXPIRE', key, left)
      reply[index] = now + (left - 1) * 1000
    end
  end)
  if problem then reply[index] = problem end
end
reply[#reply + 1] = now
return reply
