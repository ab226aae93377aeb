-- Reads how a flow stands, and asks to be told when it ends.
-- KEYS: flows, watch
-- ARGV: flow, channel ('' to only look)
-- Reply: {} when it is unknown; else {book, what is its own result, how the first failure ended or ''}
-- Invariants: only `watch` is written
redis.call('HLEN', KEYS[2])
-- include: watch
local flow = ARGV[1]
local packed = redis.call('HGET', KEYS[1], flow)
if not packed then return {} end
local fine, book = pcall(cmsgpack.unpack, packed)
if not fine or type(book) ~= 'table' or book[1] == 'g' or book[1] == 'x' then return {} end
if ARGV[2] ~= '' and book[1] ~= 'e' then add_watcher(KEYS[2], flow, ARGV[2]) end
local failure = book[7] and book[7] > 0 and redis.call('HGET', KEYS[1], flow .. ' r' .. book[7])
return {packed, redis.call('HGET', KEYS[1], flow .. ' a') or '', failure or ''}
