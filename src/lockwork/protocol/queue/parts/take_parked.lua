-- Moving parked jobs to the workers that may know their task.
-- KEYS: jobs, due, ready*3, parked
-- include: queue/push
-- include: queue/groups
-- include: queue/parked
local MOST_LABELS = 500

-- Return whether a job at this level is among the next `room` leased jobs, after `moved` others.
local function is_next(level, room, moved)
  local before = moved
  for higher = 1, level do before = before + redis.call('LLEN', ready[higher]) end
  return before < room
end

-- Move parked jobs of these tasks, `TASK VERSION TASK VERSION ...`, to the front of their ready lists or group queues.
-- `room`: the most to move, which is how many jobs the call leases next. `fence`: the fence of these leases.
local function take_parked(tasks, room, fence)
  if not queue.has_parked or room <= 0 then return end
  local versions, from, fits = {}, '-', queue.heavy and allowance()
  for task, version in string.gmatch(tasks, '(%S+) (%S+)') do versions[task] = version end
  local taken, entries, fronts = {}, {}, {{}, {}, {}}
  for _ = 1, MOST_LABELS do
    if #taken >= room then break end
    local entry = unpack(redis.call('ZRANGEBYLEX', parked, from, '+', 'LIMIT', 0, 1))
    local label, task, tried = string.match(entry or '', '^((%S+) (%S*))\n')
    if not label then break end
    local behind = '(' .. label .. '\v'
    if versions[task] and not string.find(tried, versions[task], 1, true) then
      for _, entry in ipairs(redis.call('ZRANGEBYLEX', parked, '[' .. label .. '\n', behind, 'LIMIT', 0, room - #taken)) do
        local id = string.sub(entry, #label + 2)
        if fits and not fits(id) then break end
        local record = redis.call('HGET', jobs, id)
        local special, at = record and not plain(record), record and level(record)
        if not record or special or is_next(at, room, #taken) then
          taken[#taken + 1] = id
          entries[#entries + 1] = entry
          if special then
            admit(id, record, nil, ' ' .. string.format('%.0f', fence))
          elseif record then
            table.insert(fronts[1 + at], 1, id)
          end
        end
      end
    end
    from = behind
  end
  if #taken == 0 then return end
  redis.call('ZREM', due, unpack(taken))
  redis.call('ZREM', parked, unpack(entries))
  for at, ids in ipairs(fronts) do
    if #ids > 0 then redis.call('LPUSH', ready[at], unpack(ids)) end
  end
end
