-- Whether the job waits for others of its flow, or did when it was cancelled; its id says of which flow it would be.
local function waits_in_flow(flows, id)
  local flow, number = string.match(id, '^(.+)%.(%d+)$')
  return flow and redis.call('HEXISTS', flows, flow .. ' w' .. tonumber(number)) == 1
end
