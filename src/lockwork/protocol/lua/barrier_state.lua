-- Reads how many have arrived and wait.
-- KEYS: <barrier>
-- Reply: {arrived, generation}
-- include: now
-- include: barrier
return {live(), tonumber(redis.call('HGET', barrier, 'g') or 0)}
