-- Reads the newest entries of the server's log of slow commands.
-- KEYS: none
-- ARGV: most: number
-- Reply: per entry: {number, when s, length µs, {command and arguments, shortened by the server}, ...}
return redis.call('SLOWLOG', 'GET', most)
