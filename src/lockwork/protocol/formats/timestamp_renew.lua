-- Renews many locks whose value is their end time; a lock with other digits or a past time has ended.
-- KEYS: keys*
-- ARGV: (digits, fence, lease)
--   per key; digits: unique to this acquisition; fence: unused; lease: ms
-- Reply: per key the new deadline us, or 0 when the grant is over, or an error's text; last, now us
-- Invariants: a time only grows, and only its owner's
-- include: now
-- include: alone
-- include: formats/endtime
local reply = {}
for index, key in ipairs(keys) do
  local at = FIRST + (index - 1) * STRIDE
  local digits, lease = ARGV[at], tonumber(ARGV[at + 2])
  local problem = alone(function()
    reply[index] = 0
    if redis.call('TYPE', key).ok == 'string' then
      local _, ends, per, owner = read(key)
      if ends and owner == digits and ends > now then
        local wanted = now + lease * 1000
        -- also because a script may write after a deletion when the server is out of memory
        redis.call('PEXPIRE', key, math.ceil((ends - now) / 1000))
        reply[index] = wanted > ends and write(key, owner, wanted, per) or ends - 1000
      end
    end
  end)
  if problem then reply[index] = problem end
end
reply[#reply + 1] = now
return reply
