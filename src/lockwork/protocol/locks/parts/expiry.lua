-- The expiry of a lock's key.
-- include: lifetimes

-- A lock's grants set its expiry once in each half minute, for a lease of half a minute, and half a minute later than
-- needed.
local WINDOW_US = 30000000

local function outlive_window(key, moment)
  outlive(key, math.max(moment, now + WINDOW_US) + WINDOW_US)
end

-- Return true if the grant with this fence, in the present half minute, has set an expiry that is late enough.
local function is_outlived(fence, moment)
  fence = tonumber(fence) or 0
  return fence < now and moment <= now + WINDOW_US and math.floor(fence / WINDOW_US) == math.floor(now / WINDOW_US)
end
