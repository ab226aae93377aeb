-- Reads how a flow stands, and asks to be told when it ends.
-- KEYS: flows, watch: hash
-- ARGV: flow, channel
--   channel: '' to only look
-- Reply: {} when it is unknown; else {book, what is its own result, how the first failure ended or ''}
-- Invariants: only `watch` is written
-- include: watch
local packed = redis.call('HGET', flows, flow)
if not packed then return {} end
local fine, book = pcall(cmsgpack.unpack, packed)
if not fine or type(book) ~= 'table' or book[1] == 'g' or book[1] == 'x' then return {} end
if channel ~= '' and book[1] ~= 'e' then add_watcher(watch, flow, channel) end
local failure = book[7] and book[7] > 0 and redis.call('HGET', flows, flow .. ' r' .. book[7])
return {packed, redis.call('HGET', flows, flow .. ' a') or '', failure or ''}
