-- Some of the jobs in a session's hands, as {id, token, ...}: about `count`, and none only when there is none.
-- A scan gives up after so many empty places, and where it begins earlier calls may have left nothing else.
local function held_jobs(run, count)
  local step = {'0'}
  repeat
    step = redis.call('HSCAN', run, step[1], 'COUNT', count)
  until #step[2] > 0 or step[1] == '0'
  return step[2]
end
