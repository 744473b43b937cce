-- Queue accepted tasks. Idempotent by task id: one that is known in any state is left as it is. What belongs to a queue or a
-- tenant (entitlements, counters, its place in the schedule) is said once for a run of tasks of one queue, and done once for
-- the run or for the call, not for each task.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4...] runs of tasks of one queue and lane. Per run 10 fields: queue, lane, what the queue and its tenant are entitled
--   to: limit (tasks of the queue in flight, 0: none), weight, rate (tasks per second, 0: none), burst, tenant weight,
--   tenant rate, tenant burst; and how many tasks follow. Per task 8 fields: id, created_ms, cost, sequence, expires_ms,
--   ready_ms (0: now), delivery, owner ('' for a waiting task; the runner of a task that is held until ready_ms because it
--   was running when Redis lost its data)
-- Answers: 'LOST', or per task 'QUEUED' | 'DUPLICATE'.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include pending
-- @include place
-- @include append
-- @include numbers
-- @include buckets
-- @include schedule
-- @include entitlement

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl = now_ms(ARGV[2]), ARGV[3]
local policy = policy_of(P)
local answers = {}

-- What this call has touched: queues in their order, how many tasks wait more in each, what was noted of whom.
local touched, waiting, noted = {}, {}, {}

-- touch(qid, more): a queue is to be looked at again at the end. One that holds a task for its runner too: what was queued
-- before it may be at its limit by it.
local function touch(qid, more)
  if not waiting[qid] then touched[#touched + 1] = qid end
  waiting[qid] = (waiting[qid] or 0) + more
end

-- entitle(qid, lane, at): note what a queue and its tenant may have: seven fields from ARGV[at] on.
local function entitle(qid, lane, at)
  local _, tenant = split_queue(qid)
  local own, shared = table.concat(ARGV, ' ', at, at + 3), table.concat(ARGV, ' ', at + 4, at + 6)
  if noted[qid] ~= own then
    entitle_queue(P, qid, unpack(ARGV, at, at + 3))
    noted[qid] = own
  end
  local whose = lane .. ' ' .. tenant
  if noted[whose] ~= shared then
    entitle_tenant(P, lane, tenant, ttl, unpack(ARGV, at + 4, at + 6))
    noted[whose] = shared
  end
end

local function hold(id, qid, owner, ready)
  redis.call('HSET', P .. 'task:' .. id, 'state', 'held', 'owner', owner)
  redis.call('HINCRBY', meta_key(P, qid), 'inflight', 1)
  redis.call('ZADD', P .. 'deferred', ready, 'held:' .. id)
end

local function defer(id, qid, ready)
  redis.call('HSET', P .. 'task:' .. id, 'state', 'deferred')
  redis.call('ZADD', P .. 'deferred', ready, 'task:' .. id)
  redis.call('HINCRBY', meta_key(P, qid), 'deferred', 1)
  wake(P, '@deferred')
end

-- admit(qid, lane, …): note a task that is not known yet. Returns the word to be answered, how many tasks wait more (0 or 1),
-- and the task's element if it belongs into its queue's list.
local function admit(qid, lane, id, created, cost, sequence, expires, ready, delivery, owner)
  local task = P .. 'task:' .. id
  if redis.call('EXISTS', task) == 1 then return 'DUPLICATE', 0 end
  redis.call('HSET', task, 'state', 'queued', 'queue', qid, 'lane', lane, 'created', created, 'cost', cost, 'sequence',
    sequence, 'expires', expires, 'delivery', delivery)
  if owner ~= '' then
    hold(id, qid, owner, ready)
    return 'QUEUED', 0
  end
  if tonumber(ready) > now then
    if split_queue(qid) == 'mac' then
      defer(id, qid, ready)
      return 'QUEUED', 1
    end
    redis.call('HSET', task, 'ready', ready)
  end
  return 'QUEUED', 1, element_of(lane, created, cost, sequence, id)
end

-- admit_run(at): a run of tasks whose fields begin at ARGV[at]; returns where the next one begins.
local function admit_run(at)
  local qid, lane, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 9])
  local elements, sequences, new, more = {}, {}, false, 0
  local after = at + 10 + count * 8
  for i = at + 10, after - 1, 8 do
    local word, waits, element = admit(qid, lane, unpack(ARGV, i, i + 7))
    answers[#answers + 1] = word
    new, more = new or word == 'QUEUED', more + waits
    if element then
      elements[#elements + 1] = element
      sequences[#elements] = tonumber(ARGV[i + 3])
    end
  end
  if new then
    entitle(qid, lane, at + 2)
    touch(qid, more)
    append(queue_key(P, qid), elements, sequences)
  end
  return after
end

-- settle_queue(qid, more): count what waits in a queue, and give it its place in the schedule.
local function settle_queue(qid, more)
  if more > 0 then count_of_subject(P, qid, more) end
  local served = reindex(P, policy, qid, now, ttl)
  if served ~= '' then
    wake(P, served)
  else
    -- It may have been idle, and about to be forgotten.
    redis.call('PERSIST', meta_key(P, qid))
  end
end

local at = 4
while at <= #ARGV do at = admit_run(at) end
local of_tenant = {}
for _, qid in ipairs(touched) do
  local _, tenant = split_queue(qid)
  of_tenant[tenant] = (of_tenant[tenant] or 0) + waiting[qid]
  settle_queue(qid, waiting[qid])
end
for tenant, more in pairs(of_tenant) do
  if more > 0 then count_of_tenant(P, tenant, more) end
end
return answers
