-- The task of a record.
local OTHER = '(other)'

-- Return the task that a record names, or OTHER.
local function task_of(record)
  local task = string.match(record, '^[^;]*;%["([^"\\%c ]+)"')
  if not task then
    -- the name contains characters that JSON escapes
    local text = string.match(record, '^[^;]*;(%["[^%c ]-")[,%]]')
    local readable, call = pcall(cjson.decode, (text or '') .. ']')
    task = readable and type(call) == 'table' and call[1]
  end
  return type(task) == 'string' and task ~= '' and task or OTHER
end
