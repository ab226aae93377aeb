-- The result of a job that is kept for a time of its own; nil when that time is over, whether or not it has been forgotten.
-- include: now
local function kept_result(kept, expiry, id)
  local blob = redis.call('HGET', kept, id)
  local upto = blob and redis.call('ZSCORE', expiry, id)
  if upto and -upto > now / 1000 then return blob end
end
