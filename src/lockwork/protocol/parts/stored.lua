-- Reading keys that may have any type: a wrong type sets `problem`, instead of an error.
local BYTES = 1048576 -- soft limit of the records and errors that one call reads
local MOST = 4194304 -- a larger field is not read
local problem = ''

local function ask(command, ...)
  local reply = redis.pcall(command, ...)
  if type(reply) == 'table' and reply['err'] then
    problem = reply['err']
    return nil
  end
  return reply
end

-- Return the size of a field.
local function weight(key, id)
  return ask('HSTRLEN', key, id) or 0
end

-- Return a field, or '' if it is missing or too large.
local function field(key, id, size)
  return size <= MOST and ask('HGET', key, id) or ''
end
