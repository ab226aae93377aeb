-- Does something for one of many keys: an error there, such as another program's data in it, costs that key only. What keeps the
-- server from all of them ends the script.
-- Returns the error's text, or nil
local function alone(does)
  local ok, problem = pcall(does)
  if ok then return nil end
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  for _, code in ipairs({'READONLY', 'MASTERDOWN', 'MISCONF', 'NOREPLICAS', 'OOM'}) do
    if string.find(text, code .. ' ', 1, true) then error(problem) end
  end
  return text
end
