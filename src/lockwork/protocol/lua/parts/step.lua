-- One step of an operation of several calls, each of which changes what it finds. Sent again, or met late, it does nothing
-- more: ARGV[1] is the number of the step, and the last key keeps the latest one's reply for two minutes.
local log = KEYS[#KEYS]
local kept = redis.call('GET', log)
if kept then
  local last = cmsgpack.unpack(kept)
  if last[1] >= tonumber(ARGV[1]) then return last[2] end
end

local function keep(reply)
  redis.call('SET', log, cmsgpack.pack({tonumber(ARGV[1]), reply}), 'PX', 120000)
  return reply
end
