-- Ends a worker's sleep without a fetch: its entry goes, or, if it was woken already, another worker is woken instead. A job that
-- it was offered meanwhile goes back, or ends if it is to be cancelled.
-- KEYS: <push>, <finish>, job_notes: hash; run: hash
-- ARGV: channel, awake: flag, known: number, window: number
--   channel: the worker's; awake: it woke up without a message: then it was the one that knew when to look again
--   known: fence of the last job that it has; window: ms
-- Reply: 1 when another worker was told, else 0
-- Invariants: a wake-up that its worker cannot use is not lost while another worker sleeps; a job of which its worker was asked to
--   cancel it does not run again on its own
-- include: now
-- include: push
-- include: finish
local since = tonumber(redis.call('ZSCORE', idle_workers, channel) or nil)
redis.call('ZREM', idle_workers, channel)
if since and since >= 0 and not awake then return 0 end
if since and since < 0 then
  if -since <= known and not awake then return 0 end -- it has the job
  local held, outcomes = redis.call('HGETALL', run), {}
  for at = 1, #held, 2 do
    local given = tonumber(string.match(held[at + 1], ' (%d+) ~$') or 0)
    if given > known then
      local id = held[at]
      local record, mark = redis.call('HGET', jobs, id), redis.call('HGET', job_notes, id)
      redis.call('HDEL', run, id)
      count_freed(1)
      if record and mark and string.sub(mark, 1, 1) == '1' then
        close_note(id, mark, outcomes)
        redis.call('HDEL', jobs, id)
        outcomes[#outcomes + 1] = id
        outcomes[#outcomes + 1] = ending('c', 0, record)
        keep_ended(id, 'c', '0', record, '')
        forget_timelines({id})
        count_job(record, 'c')
      elseif record then -- else it was deleted by hand
        redis.call('LPUSH', ready_key(record), id)
      end
    end
  end
  conclude(outcomes, window)
  save_history()
end
return wake(1) and 1 or 0
