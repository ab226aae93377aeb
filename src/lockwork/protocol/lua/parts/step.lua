-- One step of an operation of several calls, each of which changes what it finds. Sent again, or met late, it does nothing
-- more: `step` is its number, and `log` keeps the latest one's reply for two minutes.
-- KEYS: log
-- needs: step
local kept = redis.call('GET', log)
if kept then
  local last = cmsgpack.unpack(kept)
  if last[1] >= step then return last[2] end
end

local function keep(reply)
  redis.call('SET', log, cmsgpack.pack({step, reply}), 'PX', 120000)
  return reply
end
