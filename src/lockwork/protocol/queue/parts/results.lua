-- Outcomes of ended jobs, in two hashes (queue/parts/finish.lua). The field of a job is its id; `ID p` has its progress.
-- KEYS: results*2
local newer_results, older_results = unpack(results)

-- Return a field, or false.
local function find_result(field)
  return redis.call('HGET', newer_results, field) or redis.call('HGET', older_results, field)
end

local function has_result(id)
  return redis.call('HEXISTS', newer_results, id) == 1 or redis.call('HEXISTS', older_results, id) == 1
end
