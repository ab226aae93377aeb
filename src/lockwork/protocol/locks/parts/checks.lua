-- When a waiter checks without a message.
-- include: now
local CHECK_MS = 4900 -- longest interval between a waiter's checks without a message
local LATE_MS = 900 -- longest delay of the next waiter's check after the end of a lease; with a claim (4 s) it makes CHECK_MS

-- Return the ms until a waiter checks if no message comes: for the first waiter just after the holder's deadline, and
-- at least every second, because its message may be lost; for later waiters after increasing delays, in case the
-- waiters ahead are dead.
local function check_interval(ahead, deadline)
  local left = math.max(0, math.ceil((deadline - now) / 1000))
  return ahead <= 0 and math.min(left + 2, 1000) or math.min(left + math.min(ahead * 50, LATE_MS), CHECK_MS)
end

-- Return true if no waiter would check too late after this deadline of a new grant.
local function is_checked_in_time(deadline)
  return deadline - now >= (CHECK_MS - LATE_MS) * 1000
end
