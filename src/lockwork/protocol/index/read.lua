-- Reads a page of the names of an index, the newest pages first.
-- Flags: no-writes
-- KEYS: names: zset
-- ARGV: skip: number, most: number, since
--   skip: number of the newest names to skip; since: read only names that were added from this time (ms) on, or empty
-- Reply: {now ms, names}
-- include: now
local found
if since == '' then
  found = redis.call('ZRANGE', names, -skip - most, -skip - 1)
else
  found = redis.call('ZRANGEBYSCORE', names, since, '+inf', 'LIMIT', skip, most)
end
return {math.floor(now / 1000), found}
