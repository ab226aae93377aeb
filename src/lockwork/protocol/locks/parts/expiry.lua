-- The expiry of a lock's key.
-- include: lifetimes
local WINDOW_US = 10000000

-- Return true if the grant with this fence was made in the present ten seconds, whose first grant has set the expiry: the
-- key still outlives a lease of that length, or of 15 s, by 50 s.
local function is_outlived(fence)
  fence = tonumber(fence) or 0
  return fence < now and math.floor(fence / WINDOW_US) == math.floor(now / WINDOW_US)
end
