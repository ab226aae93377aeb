-- Publish a message, and return how many have heard it. One that the user may not publish (Redis 7 lets a new user use no channel) is
-- heard by nobody: an error here would end a script that has begun to write, and who was to be told looks by itself before long.
local function publish(channel, text)
  local heard = redis.pcall('PUBLISH', channel, text)
  return type(heard) == 'number' and heard or 0
end
