-- Counts the arrived parties.
-- Flags: no-writes
-- KEYS: <synchronizers/barrier>
-- Reply: {arrived, generation}
-- include: now
-- include: synchronizers/barrier
return {count_live(), tonumber(redis.call('HGET', barrier, 'g') or 0)}
