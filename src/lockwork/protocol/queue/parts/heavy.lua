-- A record or note of more than HEAVY bytes marks its queue as heavy, until the queue is empty. In a heavy queue, scripts
-- that read many records count their bytes.
local HEAVY = 4096
