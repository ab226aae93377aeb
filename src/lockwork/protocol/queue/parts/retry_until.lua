-- The `retry_until` of a job: the fourth number in the second part of its header. It is ms from the job's enqueue on, or
-- a point in time (ms since 1970). Workers compare it with the time of a lease.
-- include: now
local retry_until = {longest_ms = 31622400000} -- a larger number is a point in time

-- Return the header up to the number, the number, and the rest of the record; nil for a job without one.
function retry_until.split(record)
  return string.match(record, '^(%d,%d+/%d*/%d*/)(%d+)(.*)$')
end

-- Return the record of a job that is enqueued now, under an id that may be older.
function retry_until.start(record)
  local before, ms, rest = retry_until.split(record)
  if not before or tonumber(ms) > retry_until.longest_ms then return record end
  return before .. string.format('%.0f', math.floor(now / 1000) + ms) .. rest
end

-- Return the record without the limit, and whether it had one.
function retry_until.drop(record)
  local before, _, rest = retry_until.split(record)
  if not before then return record, false end
  return string.gsub(before, '/+$', '') .. rest, true
end
