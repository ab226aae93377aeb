-- Asks for several locks in one step, in the order of their keys: all that are free up to the first busy one, in whose line
-- the caller gets a place; called again, it goes on from there.
-- KEYS: locks*: hash
-- ARGV: owner, request, lease: number, claim: number, wait: flag, channel, secret?
--   locks: each once, sorted; the same ones whenever the same request asks
--   lease, claim: ms; wait: or be refused at once; secret: seals a hand-over, if messages are to say of one
-- Reply: {1, now us, fence, deadline us, fence, deadline us, ...} all granted; {0, check ms, now us} not all, look again
--   after that time (0: refused)
-- Invariants: each lock's own, as in lock_acquire. While it waits for one lock it has nothing of those behind it in the
--   order, so no waiters form a circle: neither multilocks nor nested locks that are taken in the order of their names.
--   Without waiting: all or nothing
-- include: now
local lock -- one after the other
-- include: lock_waiters
-- include: ask
-- include: withdraw

local function withdraw_from(first, last)
  for at = first, last do
    lock = locks[at]
    withdraw(owner, request)
  end
end

local reply = {1, now}
for at, key in ipairs(locks) do
  lock = key
  local answer = ask(owner, request, lease, claim, wait, channel, secret)
  if answer[1] == 1 then
    reply[#reply + 1] = answer[2]
    reply[#reply + 1] = answer[3]
  else
    withdraw_from(at + 1, #locks) -- had from a time before this one was lost
    if not wait then
      withdraw_from(1, at - 1)
      return {0, answer[2], now}
    end
    local check = answer[2]
    if at > 1 then check = math.min(check, math.floor(lease / 3)) end -- what is granted lives on while it asks again
    return {0, math.max(check, 1), now}
  end
end
return reply
