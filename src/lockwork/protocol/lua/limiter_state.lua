-- Reads how many units could be taken now, and when all of them could.
-- KEYS: <limiter>
-- ARGV: rate
--   rate: the rule as its users have it; '': the one that is in force
-- Reply: {units, us until all are there, now us}; {-1, 0, now us} the limiter is in use with the other algorithm;
--   for the rule in force also: the rule, callers that wait for their slot, us until the last slot; or {} if there is none
-- include: now
-- include: limiter
local asked = rate ~= ''
local rule_text = asked and rate or redis.call('HGET', limiter, 's')
if not rule_text then return {} end
local state = read(rule_text, '')
local rule = state.rule
local other = state.before and state.before ~= rule.kind
if other and state.live then return {-1, 0, now} end
if other or state.fresh then return {rule.limit, 0, now} end

-- How many slots at the beginning of the log are not after this moment.
local function until_moment(moment)
  local low, high = 0, size
  while low < high do
    local middle = math.floor((low + high) / 2)
    local request = redis.call('ZRANGE', log, middle, middle)[1]
    if entry(request)[1] <= moment then low = middle + 1 else high = middle end
  end
  return low
end

local function room()
  if rule.kind == 'b' then
    local least, most = 0, rule.limit -- the largest n whose slot is now
    while least < most do
      local n = math.ceil((least + most) / 2)
      if slot(state, n) <= now then least = n else most = n - 1 end
    end
    return least, math.max(0, state.full + (state.part > 0 and 1 or 0) - now)
  end
  if state.last > now then return 0, state.last + rule.period - now end
  local gone, left = until_moment(now - rule.period), state.dropped
  if gone > 0 then left = tonumber(redis.call('ZRANGE', log, gone - 1, gone - 1, 'WITHSCORES')[2]) end
  return math.max(0, rule.limit - (state.count - left)), math.max(0, state.last + rule.period - now)
end

local units, full = room()
if asked then return {units, full, now} end
return {units, full, now, rule_text, size - until_moment(now), math.max(0, state.last - now)}
