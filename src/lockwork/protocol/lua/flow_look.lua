-- Reads a flow's record, and asks for a message when the flow ends.
-- KEYS: flows, watch: hash
-- ARGV: flow, channel
--   channel: '' to only look
-- Reply: {} when it is unknown; else {record, what is its own result, how the first failure ended or ''}
-- Invariants: only `watch` is written
-- include: watch
local packed = redis.call('HGET', flows, flow)
if not packed then return {} end
local fine, record = pcall(cmsgpack.unpack, packed)
if not fine or type(record) ~= 'table' or record.state == 'removing' or record.state == 'discarding' then return {} end
if channel ~= '' and record.state ~= 'ended' then add_watcher(watch, flow, channel) end
local failure = record.first_failure
local ended = failure and failure > 0 and redis.call('HGET', flows, flow .. ' r' .. failure)
return {packed, redis.call('HGET', flows, flow .. ' a') or '', ended or ''}
