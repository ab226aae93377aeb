-- Return an outcome that has a separate time to live, and the end of that time (ms); nil after it, even if the outcome
-- is not deleted yet.
-- include: now
local function long_result(long_results, expiry, id)
  local blob = redis.call('HGET', long_results, id)
  local upto = blob and redis.call('ZSCORE', expiry, id)
  if upto and -upto > now / 1000 then return blob, -upto end
end
