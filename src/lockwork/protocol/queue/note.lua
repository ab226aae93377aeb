-- Stores the progress of a running job, or the value of a finished step.
-- KEYS: job_notes: hash, watch: hash, stats: hash; run
-- ARGV: id, token, most: number, name, value
--   most: bytes; name: the step ('' for progress)
-- Reply: 1; 0 if the lease is over; -1 if the note would exceed `most` (nothing was written)
-- Invariants: only the holder of the current lease writes
-- A note is 1 or 0 (cancellation requested or not), then MessagePack: [progress, step, value, step, value ...]
-- include: publish
-- include: queue/heavy
if redis.call('HGET', run, id) ~= token then return 0 end
local note = redis.call('HGET', job_notes, id) or '0'
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
redis.call('HSET', job_notes, id, note)
if #note > HEAVY then redis.call('HSET', stats, 'heavy', 1) end
if name == '' then
  local channels = redis.call('HGET', watch, id)
  for channel in string.gmatch(channels or '', '\1(%S+)') do publish(channel, id) end
end
return 1
