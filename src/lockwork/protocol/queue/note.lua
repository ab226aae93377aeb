-- Stores the progress of a running job, or the value of a finished step.
-- KEYS: job_notes: hash, watch: hash, stats: hash; run
-- ARGV: id, token, most: number, name, value
--   most: bytes; name: the step ('' for progress)
-- Reply: STORED; or, if nothing was written, LEASE_OVER or TOO_LARGE: the note would exceed `most`
-- Codes: stored=1, lease_over=0, too_large=-1
-- Invariants: only the holder of the current lease writes
-- A note is 1 or 0 (cancellation requested or not), then MessagePack: [progress, step, value, step, value ...]
-- include: publish
-- include: queue/heavy
if redis.call('HGET', run, id) ~= token then return LEASE_OVER end
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
if #note > most then return TOO_LARGE end
redis.call('HSET', job_notes, id, note)
if #note > HEAVY then redis.call('HSET', stats, 'heavy', 1) end
if name == '' then
  local channels = redis.call('HGET', watch, id)
  for channel in string.gmatch(channels or '', '\1(%S+)') do publish(channel, id) end
end
return STORED
