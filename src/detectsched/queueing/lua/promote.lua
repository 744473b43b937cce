-- Bring back what is due: delayed tasks to their queues, queues and tenants out of their back-off. Tasks held since a
-- loss of Redis are named to the caller, who corrects PostgreSQL and then releases them; they stay held for another lease
-- meanwhile.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4] lease_ms
-- ARGV[5] max_items
-- ARGV[6...] the lanes, in any of which a tenant may be waiting
-- Answers: {'LOST'}, or {'OK', milliseconds until the next is due ('' for none), promoted, id, delivery, … of held tasks}.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include place
-- @include numbers
-- @include buckets
-- @include schedule
-- @include giveback

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl, lease = now_ms(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local policy, deferred = policy_of(P), P .. 'deferred'
local promoted, held = 0, {}

local function serve(qid)
  local lane = reindex(P, policy, qid, now, ttl)
  if lane ~= '' then wake(P, lane) end
end

local function promote_task(id)
  local task = read_task(P, id)
  if not task or task.state ~= 'deferred' then return end
  redis.call('HINCRBY', meta_key(P, task.queue), 'deferred', -1)
  put_back(P, task)
  redis.call('PERSIST', meta_key(P, task.queue))
  serve(task.queue)
end

local function promote_queue(qid)
  local meta = meta_key(P, qid)
  if number(redis.call('HGET', meta, 'until')) <= now then redis.call('HDEL', meta, 'until') end
  serve(qid)
end

local function promote_tenant(tenant)
  redis.call('HDEL', tenant_limits_key(P, tenant), 'until')
  for i = 6, #ARGV do
    index_tenant(P, policy, ARGV[i], tenant, now, ttl)
    wake(P, ARGV[i])
  end
end

for _, member in ipairs(redis.call('ZRANGEBYSCORE', deferred, '-inf', now, 'LIMIT', 0, ARGV[5])) do
  local what, name = string.match(member, '^(%a+):(.*)$')
  if what == 'held' then
    redis.call('ZADD', deferred, now + lease, member)
    held[#held + 1] = name
    held[#held + 1] = redis.call('HGET', P .. 'task:' .. name, 'delivery') or ''
  else
    redis.call('ZREM', deferred, member)
    promoted = promoted + 1
    if what == 'task' then promote_task(name) elseif what == 'queue' then promote_queue(name) else promote_tenant(name) end
  end
end
local first = redis.call('ZRANGE', deferred, 0, 0, 'WITHSCORES')
local due = #first > 0 and tostring(math.max(0, math.ceil(tonumber(first[2]) - now))) or ''
return {'OK', due, promoted, unpack(held)}
