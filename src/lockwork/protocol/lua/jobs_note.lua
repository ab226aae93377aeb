-- Writes down how far a running job is: its progress, or a step that it has finished.
-- KEYS: notes: hash, watch: hash, stats: hash; run
-- ARGV: id, token, most: number, name, value
--   most: bytes; name: of the step ('' for progress)
-- Reply: 1; 0 when the lease is over, -1 when it would be too much (nothing was written)
-- Invariants: only the token of the current lease writes
-- A note is 1 or 0 (to be cancelled or not), then MessagePack: [progress, step, value, step, value ...]
-- include: publish
if redis.call('HGET', run, id) ~= token then return 0 end
local note = redis.call('HGET', notes, id) or '0'
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
if #note > most then return -1 end
redis.call('HSET', notes, id, note)
if #note > 4096 then redis.call('HSET', stats, 'heavy', 1) end -- as weigh in limits.lua
if name == '' then
  local channels = redis.call('HGET', watch, id)
  for channel in string.gmatch(channels or '', '\1(%S+)') do publish(channel, id) end
end
return 1
