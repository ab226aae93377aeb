-- Requests several locks in one step in the order of their keys: takes the free locks up to the first busy lock, and
-- adds the caller to the waiters of that lock. A repeated call continues from there.
-- KEYS: locks*: hash
-- ARGV: owner, request, lease: number, claim: number, wait: flag, channel, secret?
--   locks: sorted, without duplicates; the same locks in each call of a request
--   lease, claim: ms; wait: false to be refused at once; secret: seals the message of a transfer
-- Reply: {GRANTED, now us, fence, deadline us, fence, deadline us, ...} all granted; {NOT_GRANTED, check ms, now us}
--   not all, call again after this time (0: refused)
-- Codes: <locks/reply>
-- Invariants: the invariants of each lock, as in locks/acquire.lua. A request that waits for one lock holds no lock
--   later in the order, so waiters form no cycle, neither of multilocks nor of nested locks that callers acquire in the
--   order of their names. Without waiting: all or nothing
-- include: now
local lock -- the current one
-- include: locks/waiters
-- include: locks/ask
-- include: locks/withdraw

local function withdraw_from(first, last)
  for at = first, last do
    lock = locks[at]
    withdraw(owner, request)
  end
end

local reply = {GRANTED, now}
for at, key in ipairs(locks) do
  lock = key
  local code, fence_or_check, deadline = unpack(ask(owner, request, lease, claim, wait, channel, secret))
  if code == GRANTED then
    reply[#reply + 1] = fence_or_check
    reply[#reply + 1] = deadline
  else
    withdraw_from(at + 1, #locks) -- granted before this lock was lost
    if not wait then
      withdraw_from(1, at - 1)
      return {NOT_GRANTED, fence_or_check, now}
    end
    local check = fence_or_check
    if at > 1 then check = math.min(check, math.floor(lease / 3)) end -- a repeated call renews these locks
    return {NOT_GRANTED, math.max(check, 1), now}
  end
end
return reply
