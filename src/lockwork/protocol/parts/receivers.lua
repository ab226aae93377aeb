-- Whether a waiter's process can receive a grant, and how much time it gets to claim it.
-- include: publish
local UNSUBSCRIBED_CHECK_MS = 500 -- check interval of a waiter whose process is not subscribed to its channel
local CHECK_DELAY_MS = 400 -- maximum delay of that check; the sum is less than the second that a dead waiter may cost
local subscribed_cache = {}

local function is_subscribed(channel)
  if subscribed_cache[channel] == nil then subscribed_cache[channel] = has_subscriber(channel) ~= false end
  return subscribed_cache[channel]
end

-- A process that was not subscribed when it called finds the grant at its next check.
local function is_reachable(waiter, now_us)
  return is_subscribed(waiter.channel) or (waiter.was_unsubscribed and waiter.next_check_us + CHECK_DELAY_MS * 1000 > now_us)
end

-- Return the lease of a grant until the waiter claims it.
local function claim_ms(waiter, requested_ms, now_us)
  if is_subscribed(waiter.channel) then return requested_ms end
  return math.max(1, math.min(requested_ms, math.ceil((waiter.next_check_us - now_us) / 1000) + CHECK_DELAY_MS))
end
