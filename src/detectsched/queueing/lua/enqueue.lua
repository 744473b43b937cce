-- Queue accepted tasks. Idempotent by task id: one that is known in any state is left as it is. What belongs to a queue or a
-- tenant (entitlements, counters, its place in the schedule) is done once a call, not once a task.
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

-- What this call has touched: queues in their order, how many tasks wait more in each, what was noted of whom.
local touched, waiting, noted = {}, {}, {}

-- touch(qid, more): a queue is to be looked at again at the end. One that holds a task for its runner too: what was queued
-- before it may be at its limit by it.
local function touch(qid, more)
  if not waiting[qid] then touched[#touched + 1] = qid end
  waiting[qid] = (waiting[qid] or 0) + more
end

local function entitle(qid, lane, limit, weight, rate, burst, tenant_weight, tenant_rate, tenant_burst)
  local _, tenant = split_queue(qid)
  local own = table.concat({limit, weight, rate, burst}, ' ')
  if noted[qid] ~= own then
    redis.call('PERSIST', meta_key(P, qid))
    entitle_queue(P, qid, limit, weight, rate, burst)
    noted[qid] = own
  end
  local whose, shared = lane .. ' ' .. tenant, table.concat({tenant_weight, tenant_rate, tenant_burst}, ' ')
  if noted[whose] ~= shared then
    entitle_tenant(P, lane, tenant, ttl, tenant_weight, tenant_rate, tenant_burst)
    noted[whose] = shared
  end
end

local function hold(id, qid, owner, ready)
  redis.call('HSET', P .. 'task:' .. id, 'state', 'held', 'owner', owner)
  redis.call('HINCRBY', meta_key(P, qid), 'inflight', 1)
  redis.call('ZADD', P .. 'deferred', ready, 'held:' .. id)
  touch(qid, 0)
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
  entitle(qid, lane, ...)
  if owner ~= '' then
    hold(id, qid, owner, ready)
    return 'QUEUED'
  end
  touch(qid, 1)
  local early = tonumber(ready) > now
  if early and split_queue(qid) == 'mac' then
    defer(id, qid, ready)
    return 'QUEUED'
  end
  if early then redis.call('HSET', task, 'ready', ready) end
  place(queue_key(P, qid), element_of(lane, created, cost, sequence, id))
  return 'QUEUED'
end

local answers = {}
for i = 4, #ARGV, 17 do
  answers[#answers + 1] = admit(unpack(ARGV, i, i + 16))
end
for _, qid in ipairs(touched) do
  if waiting[qid] > 0 then count_pending(P, qid, waiting[qid]) end
  local served = reindex(P, policy, qid, now, ttl)
  if served ~= '' then wake(P, served) end
end
return answers
