-- Reads how long the oldest job has waited for its key or its group's turn, from a bounded part of the group queue.
-- Flags: no-writes
-- KEYS: group_queue, timelines
-- ARGV: after, most: number
--   after: the last line that the previous call read ('': start at the beginning); most: lines to read
-- Reply: {now us, the time (us) since which the oldest of these jobs waits or -1, the last line read or '' at the end}
-- include: now
local RETURNED = 10 -- limit per line of returned jobs to read
local oldest, line, low = nil, '', after == '' and '-' or '[' .. after .. '\v'

local function waits_since(us)
  if us and (not oldest or us < oldest) then oldest = us end
end

-- Return the time since which a returned job waits: the noted death of its process, else the start of its lease.
local function returned_at(id, fence)
  local stored = redis.call('HGET', timelines, id)
  local readable, rows = pcall(cmsgpack.unpack, stored or '')
  local last = readable and type(rows) == 'table' and rows[#rows]
  local _, _, ended = unpack(type(last) == 'table' and last or {}, 1, 3)
  ended = tonumber(ended)
  return ended and ended > fence and ended or fence
end

for _ = 1, most do
  local entry = unpack(redis.call('ZRANGEBYLEX', group_queue, low, '+', 'LIMIT', 0, 1))
  if not entry then
    line = ''
    break
  end
  local number, id
  line, number, id = string.match(entry, '^(.*)\n(%S+) (%S+)$')
  low = '[' .. line .. '\v'
  if string.sub(number, 1, 1) == '-' then
    -- a returned job comes first, and may be younger than the next
    for _, other in ipairs(redis.call('ZRANGEBYLEX', group_queue, '[' .. line .. '\n-', '(' .. line .. '\n0', 'LIMIT', 0, RETURNED)) do
      local fence, returned = string.match(other, '\n%-(%d+) (%S+)$')
      waits_since(returned_at(returned, tonumber(fence)))
    end
    entry = unpack(redis.call('ZRANGEBYLEX', group_queue, '[' .. line .. '\n0', '(' .. line .. '\v', 'LIMIT', 0, 1))
    number = entry and string.match(entry, '\n(%d+) ')
  end
  waits_since(tonumber(number))
end
return {now, oldest and string.format('%.0f', oldest) or -1, line}
