-- Unique names. The header of a unique job has a sixth part: `s` (its name is free when it first begins), `d` (when it has
-- ended) or `p` (after a time, which jobs_push_unique sees to), then the name.
-- In `groups`: `u NAME` = `id` of the job that has the name, and, after a space,
-- the ms at which it is due at the latest.
-- KEYS: jobs, groups

local function unique_name(record)
  return string.match(record, '^[012],[%d/]+,[^,;]*,[^,;]*,[^,;]*,([dsp])([^,;]+)')
end

local function name_owner(name)
  return string.match(redis.call('HGET', groups, 'u ' .. name) or '', '^(%S+) ?(%d*)$')
end

-- The job's name is free, if it is the job's.
local function free_name(id, record)
  local _, name = unique_name(record)
  if name and name_owner(name) == id then redis.call('HDEL', groups, 'u ' .. name) end
end

-- A job that is leased.
local function begun(id, record)
  if unique_name(record) == 's' then free_name(id, record) end
end

-- The job that has the name: not one without a record, nor a dead one.
local function name_holder(name, dead)
  local id, latest = name_owner(name)
  if id and redis.call('HEXISTS', jobs, id) == 1 and not redis.call('ZSCORE', dead, id) then
    return id, tonumber(latest)
  end
end

-- A job that has ended will run again: it takes its name again. False when another has it by now.
local function retake_name(id, record, dead)
  local how, name = unique_name(record)
  if not name or how == 'p' then return true end
  local holder = name_holder(name, dead)
  if holder and holder ~= id then return false end
  redis.call('HSET', groups, 'u ' .. name, id)
  return true
end
