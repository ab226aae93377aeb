-- A message on which its receiver acts without asking again carries a seal (messages.py): a user that may only PUBLISH cannot make one.
-- `secret` is what the receiver has given to the server. It is hashed twice, so that a known text cannot be extended.
local function sealed(secret, ticket, words)
  local inner = redis.sha1hex(secret .. ticket .. ' ' .. words)
  return ticket .. ' ' .. redis.sha1hex(secret .. inner) .. ' ' .. words
end
