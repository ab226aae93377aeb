-- Writes down how far a running job is: its progress, or a step that it has finished.
-- KEYS: run, notes, watch, stats
-- ARGV: id, token, most bytes, name of the step ('' for progress), value
-- Reply: 1; 0 when the lease is over, -1 when it would be too much (nothing was written)
-- Invariants: only the token of the current lease writes
-- A note is 1 or 0 (to be cancelled or not), then MessagePack: [progress, step, value, step, value ...]
-- include: publish
redis.call('HLEN', KEYS[2])
redis.call('HLEN', KEYS[3])
redis.call('HLEN', KEYS[4])
local id, name, value = ARGV[1], ARGV[4], ARGV[5]
if redis.call('HGET', KEYS[1], id) ~= ARGV[2] then return 0 end
local note = redis.call('HGET', KEYS[2], id) or '0'
local facts = #note > 1 and cmsgpack.unpack(string.sub(note, 2)) or {''}
local at = 1
if name ~= '' then
  at = 2
  while facts[at] and facts[at] ~= name do at = at + 2 end
  facts[at] = name
  at = at + 1
end
facts[at] = value
note = string.sub(note, 1, 1) .. cmsgpack.pack(facts)
if #note > tonumber(ARGV[3]) then return -1 end
redis.call('HSET', KEYS[2], id, note)
if #note > 4096 then redis.call('HSET', KEYS[4], 'heavy', 1) end -- as weigh in limits.lua
if name == '' then
  local channels = redis.call('HGET', KEYS[3], id)
  for channel in string.gmatch(channels or '', '\1(%S+)') do publish(channel, id) end
end
return 1
