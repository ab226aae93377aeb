-- Reads the rules of a queue.
-- Flags: no-writes
-- KEYS: stats: hash
-- Reply: {paused since (ms) or '', rate or '', concurrency or '', size or ''}
-- include: queue/rules
return {read_rules()}
