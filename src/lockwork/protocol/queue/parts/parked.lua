-- Parked jobs: jobs that a worker returned because it does not know the task, or because the call does not fit its
-- version of the task. A parked job waits in `due`, with a pause that grows each time. A worker that may know the task
-- takes it at once (queue/parts/take_parked.lua).
--   parked: `LABEL\nID` of each waiting job, with score 0. A label is `TASK VERSIONS`: the versions that the call did
--     not fit, separated by commas
--   parked_since: id → `MS COUNT LABEL`: when it was first returned, how often, and its label. It is deleted when a
--     delivery ends in another way. While an entry exists, `parked` in `stats` is set: other queues skip this code
-- KEYS: jobs, due, stats, parked: zset, parked_since: hash
-- include: queue/limits
local SHORTEST_PAUSE, LONGEST_PAUSE = 250, 30000 -- ms
local MOST_VERSIONS = 10

-- Remove parked jobs from the index. `over`: also delete their entries in `parked_since`.
local function unpark(ids, over)
  if not queue.has_parked or #ids == 0 then return false end
  local entries, known = {}, {}
  for at, since in ipairs(redis.call('HMGET', parked_since, unpack(ids))) do
    local label = since and string.match(since, '^%d+ %d+ (.*)$')
    if label then
      entries[#entries + 1] = label .. '\n' .. ids[at]
      known[#known + 1] = ids[at]
    end
  end
  if #known == 0 then return false end
  redis.call('ZREM', parked, unpack(entries))
  if over then
    redis.call('HDEL', parked_since, unpack(known))
    if redis.call('EXISTS', parked_since) == 0 then
      queue.has_parked = false
      redis.call('HDEL', stats, 'parked')
    end
  end
  return true
end

-- Park a job whose lease has ended. `why`: `KNOWN VERSION TASK`. KNOWN is 1 if a live worker knows the task. VERSION is
-- the version of the task that the call does not fit, or `-`.
local function park(id, why)
  if redis.call('HEXISTS', jobs, id) == 0 then return end -- deleted by hand
  local known, version, task = string.match(why, '^(%d) (%S+) (%S+)$')
  local now_ms = math.floor(now / 1000)
  local entry = queue.has_parked and redis.call('HGET', parked_since, id) or ''
  local since, count, former, tried = string.match(entry, '^(%d+) (%d+) (%S+) (%S*)$')
  count = tonumber(count or 0)
  since = known == '0' and since and math.min(since, now_ms) or now_ms
  local versions = former == task and tried or ''
  if version ~= '-' and not string.find(versions, version, 1, true) then
    versions = versions == '' and version or versions .. ',' .. version
    if select(2, string.gsub(versions, ',', '')) >= MOST_VERSIONS then versions = string.match(versions, ',(.*)$') end
  end
  local label = task .. ' ' .. versions
  redis.call('HSET', parked_since, id, string.format('%.0f %d %s', since, count + 1, label))
  redis.call('ZADD', parked, 0, label .. '\n' .. id)
  redis.call('ZADD', due, now_ms + math.min(LONGEST_PAUSE, SHORTEST_PAUSE * 2 ^ math.min(count, 10)), id)
  if not queue.has_parked then
    queue.has_parked = true
    redis.call('HSET', stats, 'parked', 1)
  end
end
