-- Rows of lists of schedules.
-- KEYS: schedules, seen, created
-- include: schedules/schedule

-- Append a schedule to the reply, unless it is unreadable or was deleted.
local function append_row(reply, name)
  local known, hash = find(name)
  if not known or (hash == schedules and not redis.call('ZSCORE', seen, name)) then return end
  reply[#reply + 1] = name
  reply[#reply + 1] = hash == created and 2 or is_declared(name) and 1 or 0
  reply[#reply + 1] = redis.call('HGET', hash, 'd' .. name) or ''
  for field = CURSOR, MISSED do reply[#reply + 1] = known[field] end
end
