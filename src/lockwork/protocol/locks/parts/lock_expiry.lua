-- The expiry of the key of the script's current lock.
-- needs: lock
-- include: locks/expiry
-- The fence is needed until the clock has passed it: after a clock was set back, the fence is ahead.
local function set_expiry(deadline, fence)
  outlive(lock, math.max(deadline, fence))
end

-- Set the expiry, unless an earlier grant has. `last_fence` and `last_deadline`: of the grant before this call.
local function keep_expiry(deadline, fence, last_fence, last_deadline)
  local ends = math.max(deadline, fence, tonumber(last_deadline) or 0)
  if ends > now + WAITER_MS * 1000 or not is_outlived(last_fence) then set_expiry(deadline, fence) end
end
