-- Reading what may hold anything: a key of another type is no error here, but a text in `problem`.
local BYTES = 1048576 -- of records and errors that one call reads, or a little more
local MOST = 4194304 -- a larger one is not read at all
local problem = ''

local function ask(command, ...)
  local reply = redis.pcall(command, ...)
  if type(reply) == 'table' and reply['err'] then
    problem = reply['err']
    return nil
  end
  return reply
end

-- How much reading this field would be.
local function weight(key, id)
  return ask('HSTRLEN', key, id) or 0
end

-- A field if it is there, and not too large to be read at all.
local function field(key, id, size)
  return size <= MOST and ask('HGET', key, id) or ''
end
