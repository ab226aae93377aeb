-- The history of one ended job.
-- KEYS: history: hash, history_order: zset
-- include: history/row

-- Return the record of a cancelled or expired job, if it was stored completely and the job belongs to no flow.
local function kept_record(id)
  local letter, record, size = unpack_row(redis.call('HGET', history, id) or '')
  if not letter or letter == 's' then return nil end
  local whole = #record == size and not string.find(record, '>;', 1, true)
  return whole and record or nil
end

-- Delete the history of an ended job that will run again.
local function forget_ended(id)
  redis.call('HDEL', history, id)
  redis.call('ZREM', history_order, id)
end
