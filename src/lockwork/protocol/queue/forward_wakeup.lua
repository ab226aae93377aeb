-- Ends a worker's idle state without a fetch. If the worker was already woken, another worker is woken instead. A job
-- that was offered to it meanwhile returns to the ready list, or ends if it has a cancellation request.
-- KEYS: <queue/push>, <queue/finish>, job_notes: hash; run: hash
-- ARGV: channel, awake: flag, known: number, window: number
--   channel: of the worker; awake: it woke up without a message, so it was responsible for the next scheduled time
--   known: fence of the last job that the worker received; window: ms
-- Reply: 1 if another worker was woken, else 0
-- Invariants: a wake-up that its worker cannot use reaches another idle worker; after a cancellation request, a job is
--   not retried
-- include: now
-- include: queue/push
-- include: queue/finish
local since = tonumber(redis.call('ZSCORE', idle_workers, channel) or nil)
redis.call('ZREM', idle_workers, channel)
if since and since >= 0 and not awake then return 0 end
if since and since < 0 then
  if -since <= known and not awake then return 0 end -- the worker received the job
  local held, outcomes = redis.call('HGETALL', run), {}
  for at = 1, #held, 2 do
    local given = tonumber(string.match(held[at + 1], ' (%d+) ~$') or 0)
    if given > known then
      local id = held[at]
      local record, mark = redis.call('HGET', jobs, id), redis.call('HGET', job_notes, id)
      redis.call('HDEL', run, id)
      count_freed(1)
      if record and mark and string.sub(mark, 1, 1) == '1' then
        delete_note(id, mark, outcomes)
        redis.call('HDEL', jobs, id)
        outcomes[#outcomes + 1] = id
        outcomes[#outcomes + 1] = ending('c', 0, record)
        tracking.track(id, record, outcomes[#outcomes])
        keep_ended(id, 'c', '0', record, '')
        forget_timelines({id})
        count_job(record, 'c')
      elseif record then -- else an operator deleted it with redis-cli
        redis.call('LPUSH', ready_key(record), id)
      end
    end
  end
  store_outcomes(outcomes, window)
  save_history()
end
return wake(1) and 1 or 0
