-- Publish a message. One that the user may not publish (Redis 7 lets a new user use no channel) has no receiver: an error here
-- would end a script that has begun to write, and the receiver looks on its own before long. `send` returns the server's count of
-- receivers, or nil for such a user; `publish` then returns 0. On a Cluster, publish_on_cluster.lua takes the place of this part.
local function send(channel, text)
  local heard = redis.pcall('PUBLISH', channel, text)
  return type(heard) == 'number' and heard or nil
end

local function publish(channel, text)
  return send(channel, text) or 0
end

-- Return whether a process listens on its channel; nil when the user may not ask. PUBLISH's count cannot tell: it includes
-- monitors (PSUBSCRIBE).
local function listens(channel)
  local count = redis.pcall('PUBSUB', 'NUMSUB', channel)[2]
  return count and count > 0
end

-- Publish a message, and return 1 if the process that the channel belongs to receives it, otherwise 0.
local function tell(channel, text)
  local received = publish(channel, text) > 0
  return received and listens(channel) ~= false and 1 or 0
end
