-- Publish a message. One that the user may not publish (Redis 7 lets a new user use no channel) has no receiver: an error here
-- would end a script that has begun to write, and the receiver looks on its own before long. Returns the server's count of receivers.
local function publish(channel, text)
  local heard = redis.pcall('PUBLISH', channel, text)
  return type(heard) == 'number' and heard or 0
end

-- Return whether a process listens on its channel; nil when the user may not ask. PUBLISH's count cannot tell: it includes
-- monitors (PSUBSCRIBE). On a Cluster this is the answer of one node.
local function listens(channel)
  local count = redis.pcall('PUBSUB', 'NUMSUB', channel)[2]
  return count and count > 0
end

-- Publish a message, and return 1 if the process that the channel belongs to receives it, otherwise 0.
local function tell(channel, text)
  local received = publish(channel, text) > 0
  return received and listens(channel) ~= false and 1 or 0
end
