-- Reads the server's own facts: its memory, persistence and version.
-- Flags: no-writes
-- KEYS: none
-- Reply: {now µs, INFO}
-- include: now
return {now, redis.call('INFO')}
