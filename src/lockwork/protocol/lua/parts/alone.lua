-- Does something for one of many keys: an error there, such as another program's data in it, costs that key only.
-- Returns the error's text, or nil
local function alone(does)
  local ok, problem = pcall(does)
  if ok then return nil end
  return type(problem) == 'table' and problem.err or tostring(problem)
end
