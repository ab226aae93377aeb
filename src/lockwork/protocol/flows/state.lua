-- Reads a flow's record, and subscribes to the flow's end.
-- Flags: no-writes
-- KEYS: flows, watch: hash
-- ARGV: flow, channel
--   channel: '' to read without subscribing
-- Reply: {} if it is unknown; else {record, the jobs whose results are the flow's result, the outcome of the first
--   failure or '', its queue if that is another one}. The record of a part has the queue of the flow, its home, and the caller asks there
-- Invariants: writes only `watch`
-- include: watch
local packed = redis.call('HGET', flows, flow)
if not packed then return {} end
local fine, record = pcall(cmsgpack.unpack, packed)
if not fine or type(record) ~= 'table' or record.state == 'removing' or record.state == 'discarding' then return {} end
if record.home then return {packed, '', ''} end
if channel ~= '' and record.state ~= 'ended' then add_watcher(watch, flow, channel) end
local failure = record.first_failure
local ended = failure and failure > 0 and redis.call('HGET', flows, flow .. ' r' .. failure)
local reply = {packed, redis.call('HGET', flows, flow .. ' a') or '', ended or ''}
if record.parts and ended then reply[#reply + 1] = redis.call('HGET', flows, flow .. ' q' .. failure) or nil end
return reply
