-- Runs a function for one of many keys, and returns the text of its error, or nil. An error in one key, such as data of
-- another program, does not affect the other keys; an error of the whole server ends the script.
local function alone(action)
  local ok, problem = pcall(action)
  if ok then return nil end
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  for _, code in ipairs({'READONLY', 'MASTERDOWN', 'MISCONF', 'NOREPLICAS', 'OOM'}) do
    if string.find(text, code .. ' ', 1, true) then error(problem) end
  end
  return text
end
