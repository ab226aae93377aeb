-- Publish messages. A user without the right to a channel (the default for new users since Redis 7) sends nothing: an
-- error here would end a script after its first writes, and the receiver polls anyway. On a Cluster,
-- parts/publish_on_cluster.lua replaces this part.

-- Return the number of receivers, or nil without the right to publish.
local function send(channel, text)
  local receivers = redis.pcall('PUBLISH', channel, text)
  return type(receivers) == 'number' and receivers or nil
end

local function publish(channel, text)
  return send(channel, text) or 0
end

-- Return true if a process is subscribed to its channel; nil without the right to ask. PUBLISH also counts monitors
-- (PSUBSCRIBE).
local function has_subscriber(channel)
  local _, count = unpack(redis.pcall('PUBSUB', 'NUMSUB', channel))
  return count and count > 0
end

-- Publish a message, and return 1 if the channel's process receives it, otherwise 0.
local function notify(channel, text)
  local received = publish(channel, text) > 0
  return received and has_subscriber(channel) ~= false and 1 or 0
end
