-- count_pending(P, qid, delta): keep the counters of waiting tasks: of all, per tenant, per device or object.
-- A field that reaches zero is removed: a quiet device or tenant costs nothing. Many tasks of one queue are one call.
local function count_pending(P, qid, delta)
  local _, tenant = split_queue(qid)
  local subject = subject_of(qid)
  redis.call('INCRBY', P .. 'global_pending', delta)
  if redis.call('HINCRBY', P .. 'tenant:pending', tenant, delta) == 0 then
    redis.call('HDEL', P .. 'tenant:pending', tenant)
  end
  if redis.call('HINCRBY', P .. 'mac:pending', subject, delta) == 0 then
    redis.call('HDEL', P .. 'mac:pending', subject)
  end
end
