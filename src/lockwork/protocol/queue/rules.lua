-- Reads the rules of a queue.
-- Flags: no-writes
-- KEYS: stats: hash
-- Reply: {paused since (ms) or '', rate or '', concurrency or '', size or ''}
local found = redis.call('HMGET', stats, 'paused', 'rate', 'concurrency', 'size')
return {found[1] or '', found[2] or '', found[3] or '', found[4] or ''}
