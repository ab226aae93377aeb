-- Unique names. The header of a unique job has a sixth part: a letter, then the name. The name becomes free when
-- the job first starts (`s`), when the job has ended (`d`), or after a time (`p`, in queue/push_unique).
-- In `groups`, `u NAME` is the `id` of the job that has the name. A space and the ms of its latest due time may follow.
-- KEYS: jobs, groups

local function unique_name(record)
  return string.match(record, '^%d,[%d/]+,[^,;]*,[^,;]*,[^,;]*,([dsp])([^,;]+)')
end

local function name_owner(name)
  return string.match(redis.call('HGET', groups, 'u ' .. name) or '', '^(%S+) ?(%d*)$')
end

-- Free the name of a job, if the job still has it.
local function free_name(id, record)
  local _, name = unique_name(record)
  if name and name_owner(name) == id then redis.call('HDEL', groups, 'u ' .. name) end
end

-- Free the name of a leased job, if it lasts until the first start.
local function begun(id, record)
  if unique_name(record) == 's' then free_name(id, record) end
end

-- Return the job that has the name, unless it has no record or is dead.
local function name_holder(name, dead)
  local id, latest = name_owner(name)
  if id and redis.call('HEXISTS', jobs, id) == 1 and not redis.call('ZSCORE', dead, id) then
    return id, tonumber(latest)
  end
end

-- Take the name again for an ended job that will run again. Return false if another job has it.
local function retake_name(id, record, dead)
  local how, name = unique_name(record)
  if not name or how == 'p' then return true end
  local holder = name_holder(name, dead)
  if holder and holder ~= id then return false end
  redis.call('HSET', groups, 'u ' .. name, id)
  return true
end
