-- Return a result that has a separate time to live; nil after that time, even if it is not deleted yet.
-- include: now
local function long_result(long_results, expiry, id)
  local blob = redis.call('HGET', long_results, id)
  local upto = blob and redis.call('ZSCORE', expiry, id)
  if upto and -upto > now / 1000 then return blob end
end
