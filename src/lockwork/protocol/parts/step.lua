-- One step of an operation of several calls that change the stored state. A repeated or late call changes
-- nothing:
-- `step` is its number, and `log` stores the reply of the latest step for two minutes.
-- KEYS: log
-- needs: step
local stored = redis.call('GET', log)
if stored then
  local last_step, reply = unpack(cmsgpack.unpack(stored))
  if last_step >= step then return reply end
end

local function keep(reply)
  redis.call('SET', log, cmsgpack.pack({step, reply}), 'PX', 120000)
  return reply
end
