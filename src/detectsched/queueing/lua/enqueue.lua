-- Queue accepted tasks. Idempotent by task id: one that is known in any state is left as it is.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4...] per task, 17 fields: id, queue, lane, created_ms, cost, sequence, expires_ms, ready_ms (0: now), delivery,
--   owner ('' for a waiting task; the runner of a task that is held until ready_ms because it was running when Redis
--   lost its data), and what its queue and its tenant are entitled to: limit (tasks of the queue in flight, 0: none),
--   weight, rate (tasks per second, 0: none), burst, tenant weight, tenant rate, tenant burst
-- Answers: 'LOST', or per task 'QUEUED' | 'DUPLICATE'.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include pending
-- @include place
-- @include numbers
-- @include buckets
-- @include schedule
-- @include entitlement

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl = now_ms(ARGV[2]), ARGV[3]
local policy = policy_of(P)

local function hold(id, qid, owner, ready)
  redis.call('HSET', P .. 'task:' .. id, 'state', 'held', 'owner', owner)
  redis.call('HINCRBY', meta_key(P, qid), 'inflight', 1)
  redis.call('ZADD', P .. 'deferred', ready, 'held:' .. id)
  -- What was queued before it may be at its limit by it.
  reindex(P, policy, qid, now, ttl)
end

local function defer(id, qid, ready)
  redis.call('HSET', P .. 'task:' .. id, 'state', 'deferred')
  redis.call('ZADD', P .. 'deferred', ready, 'task:' .. id)
  redis.call('HINCRBY', meta_key(P, qid), 'deferred', 1)
  wake(P, '@deferred')
end

local function admit(id, qid, lane, created, cost, sequence, expires, ready, delivery, owner, ...)
  local task = P .. 'task:' .. id
  if redis.call('EXISTS', task) == 1 then return 'DUPLICATE' end
  redis.call('HSET', task, 'state', 'queued', 'queue', qid, 'lane', lane, 'created', created, 'cost', cost, 'sequence',
    sequence, 'expires', expires, 'delivery', delivery)
  redis.call('PERSIST', meta_key(P, qid))
  entitle(P, qid, lane, ttl, ...)
  if owner ~= '' then
    hold(id, qid, owner, ready)
    return 'QUEUED'
  end
  count_pending(P, qid, 1)
  local early = tonumber(ready) > now
  if early and split_queue(qid) == 'mac' then
    defer(id, qid, ready)
    return 'QUEUED'
  end
  if early then redis.call('HSET', task, 'ready', ready) end
  place(queue_key(P, qid), element_of(lane, created, cost, sequence, id))
  local served = reindex(P, policy, qid, now, ttl)
  if served ~= '' then wake(P, served) end
  return 'QUEUED'
end

local answers = {}
for i = 4, #ARGV, 17 do
  answers[#answers + 1] = admit(unpack(ARGV, i, i + 16))
end
return answers
