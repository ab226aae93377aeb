-- Return whether the job waits for others of its flow, or waited until it was cancelled. A job's id contains its flow's
-- id.
local function waits_in_flow(flows, id)
  local flow, number = string.match(id, '^(.+)%.(%d+)$')
  return flow and redis.call('HEXISTS', flows, flow .. ' w' .. tonumber(number)) == 1
end
