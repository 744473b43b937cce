-- Queue accepted tasks. Idempotent by task id: one that is known in any state is left as it is.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4...] per task, 14 fields: id, queue, subject, lane, created_ms, cost, sequence, expires_ms, ready_ms (0: now),
--   delivery, limit (tasks of the queue in flight, 0: none), weight, tenant_weight, owner ('' for a waiting task; the
--   runner of a task that is held until ready_ms because it was running when Redis lost its data)
-- Answers: 'LOST', or per task 'QUEUED' | 'DUPLICATE'.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include pending
-- @include place
-- @include schedule

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl = now_ms(ARGV[2]), ARGV[3]
local policy = policy_of(P)

local function admit(id, qid, subject, lane, created, cost, sequence, expires, ready, delivery, limit, weight, share, owner)
  local task = P .. 'task:' .. id
  if redis.call('EXISTS', task) == 1 then return 'DUPLICATE' end
  local _, tenant = split_queue(qid)
  local state = owner ~= '' and 'held' or tonumber(ready) > now and 'deferred' or 'queued'
  redis.call('HSET', task, 'state', state, 'queue', qid, 'subject', subject, 'lane', lane, 'created', created, 'cost', cost,
    'sequence', sequence, 'expires', expires, 'delivery', delivery)
  redis.call('HSET', meta_key(P, qid), 'limit', limit, 'weight', weight)
  redis.call('PERSIST', meta_key(P, qid))
  redis.call('HSET', tenant_meta_key(P, lane, tenant), 'weight', share)
  keep_tenant(P, lane, tenant, ttl)
  if state == 'held' then
    redis.call('HSET', task, 'owner', owner)
    redis.call('HINCRBY', meta_key(P, qid), 'inflight', 1)
    redis.call('ZADD', P .. 'deferred', ready, 'held:' .. id)
    return 'QUEUED'
  end
  count_pending(P, qid, subject, 1)
  if state == 'deferred' then
    redis.call('ZADD', P .. 'deferred', ready, 'task:' .. id)
    redis.call('HINCRBY', meta_key(P, qid), 'deferred', 1)
    wake(P, '@deferred')
    return 'QUEUED'
  end
  place(queue_key(P, qid), element_of(lane, created, cost, sequence, id))
  local served = reindex(P, policy, qid, now, ttl)
  if served ~= '' then wake(P, served) end
  return 'QUEUED'
end

local answers = {}
for i = 4, #ARGV, 14 do
  answers[#answers + 1] = admit(unpack(ARGV, i, i + 13))
end
return answers
