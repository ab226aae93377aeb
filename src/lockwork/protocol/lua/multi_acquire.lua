-- Asks for several locks in one step: grants each that is free, and gives the caller a place in every busy line at once.
-- KEYS: locks, each once; the same ones whenever the same request asks
-- ARGV: owner, request, lease ms, claim ms, 1 to wait or 0, channel
-- Reply: {1, now us, fence, deadline us, fence, deadline us, ...} all granted; {0, check ms, now us} not all, look again
--   after that time
-- Invariants: each lock's own, as in lock_acquire. All places of a request are as old as its oldest grant: so whoever
--   waits, waits only for who came earlier, and nobody waits in a circle. Without waiting: all or nothing
-- include: now
-- include: line
-- include: ask
-- include: withdraw
local owner, request, lease, wait = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[5]

-- reads from every key before anything is written
local known, left = 0, {}
for _, key in ipairs(KEYS) do
  local held = redis.call('HMGET', key, 'o', 'r', 'd', 'i' .. request, 'f', 'h', 't')
  local own = held[1] == owner and tonumber(held[3]) > now
  if (own and held[2] == request) or held[4] then known = known + 1 end
  if own and held[2] ~= request then left[key] = held end
end

local function withdraw_from(last)
  for at = 1, last do
    lock = KEYS[at]
    withdraw(owner, request)
  end
end

-- Granted to an earlier call of this owner that never learned of it. Alone, it would be taken over; here that would mean
-- to pass one line while standing at the end of another, and so to wait in a circle: it goes to whoever is next.
for key, held in pairs(left) do
  lock = key
  pass(held[5], held[6], held[7])
end

-- A part was lost: a claim that ran out, or a place that was passed over. To stand behind others there, and before them
-- elsewhere, would be a deadlock; so it comes anew everywhere.
if known > 0 and known < #KEYS then withdraw_from(#KEYS) end

local reply, check, missing = {1, now}, nil, false
for at, key in ipairs(KEYS) do
  lock = key
  local answer = ask(owner, request, lease, tonumber(ARGV[4]), wait, ARGV[6])
  if answer[1] == 1 then
    reply[#reply + 1] = answer[2]
    reply[#reply + 1] = answer[3]
  elseif wait == '0' then
    withdraw_from(at - 1)
    return {0, 0, now}
  else
    missing = true
    check = math.min(check or answer[2], answer[2])
  end
end
if not missing then return reply end
if #reply > 2 then check = math.min(check, math.floor(lease / 3)) end -- what is granted lives on while it asks again
return {0, math.max(check, 1), now}
