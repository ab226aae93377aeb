-- Reads the state of this period's run.
-- Flags: no-writes
-- KEYS: once
-- Reply: {state, '' for none, owner, request, fence, us until the period ends}
-- include: now
-- include: synchronizers/once
if state == '' or (state ~= 'r' and ends <= now) then return {'', '', '', fence, 0} end
return {state, owner, request, fence, math.max(0, ends - now)}
