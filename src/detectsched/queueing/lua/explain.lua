-- Why does a task wait? Reads only; one atomic picture of everything that decides about its start.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] task id
-- Answers: {'LOST'}, {'GONE'}, or {'OK', name, value, …} with the names
--   now, state, queue, lane, owner, ready_ms (of a deferred task), ahead (tasks before it in its queue), ahead_cost (of
--   those looked at, at most 1000), queue_lane (where its queue is scheduled, '' for nowhere), key, v, since, until_ms,
--   inflight, limit, probing, failures, defers, tokens ('' without a rate), tenant_tokens, tenant_until_ms,
--   queue_rank, queues (of its tenant in the lane), tenant_rank, tenants, head_created_ms, head_sequence, paused_lane,
--   paused_tenant, paused_subject (since when, '' if not), outstanding, lane_seconds (per unit of cost), pending
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include numbers
-- @include buckets

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, id = now_ms(ARGV[2]), ARGV[3]
local LOOKED_AT = 1000

local answer = {'OK'}
local function say(name, value)
  answer[#answer + 1] = name
  answer[#answer + 1] = value and tostring(value) or ''
end

-- ahead_of(list, sequence): the place in a list that is sorted by sequence, by bisection.
local function ahead_of(list, sequence)
  local low, high = 0, redis.call('LLEN', list)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if sequence_of(redis.call('LINDEX', list, middle)) < sequence then low = middle + 1 else high = middle end
  end
  return low
end

local function cost_of_first(list, count)
  local cost = 0
  if count == 0 then return cost end
  for _, element in ipairs(redis.call('LRANGE', list, 0, math.min(count, LOOKED_AT) - 1)) do
    local _, _, its_cost = parse_element(element)
    cost = cost + tonumber(its_cost)
  end
  return cost
end

local function tokens(hash)
  local left, rate = tokens_in(hash, now)
  return rate > 0 and exact(left) or nil
end

local task = redis.call('HMGET', P .. 'task:' .. id, 'state', 'queue', 'lane', 'owner', 'sequence', 'ready')
if not task[1] then return {'GONE'} end
local qid, lane = task[2], task[3]
local _, tenant = split_queue(qid)
local list, meta, tenant_limits = queue_key(P, qid), meta_key(P, qid), tenant_limits_key(P, tenant)
local tenants = P .. 'mac:schedule:' .. lane
local m = redis.call('HMGET', meta, 'lane', 'key:' .. lane, 'since', 'until', 'inflight', 'limit', 'probing', 'failures', 'defers')

say('now', now)
say('state', task[1])
say('queue', qid)
say('lane', lane)
say('owner', task[4])
say('ready_ms', redis.call('ZSCORE', P .. 'deferred', 'task:' .. id) or task[6])
local ahead = task[1] == 'queued' and ahead_of(list, tonumber(task[5])) or 0
say('ahead', ahead)
say('ahead_cost', cost_of_first(list, ahead))
for i, name in ipairs({'queue_lane', 'key', 'since', 'until_ms', 'inflight', 'limit', 'probing', 'failures', 'defers'}) do
  say(name, m[i])
end
say('v', redis.call('HGET', P .. 'tenant:meta:' .. lane .. ':' .. tenant, 'v'))
say('tokens', tokens(meta))
say('tenant_tokens', tokens(tenant_limits))
say('tenant_until_ms', redis.call('HGET', tenant_limits, 'until'))
say('queue_rank', redis.call('ZRANK', tenants .. ':' .. tenant, qid))
say('queues', redis.call('ZCARD', tenants .. ':' .. tenant))
say('tenant_rank', redis.call('ZRANK', tenants, tenant))
say('tenants', redis.call('ZCARD', tenants))
local head = redis.call('LINDEX', list, 0)
local _, created, _, first = parse_element(head or '||||')
say('head_created_ms', created)
say('head_sequence', first)
say('paused_lane', redis.call('HGET', P .. 'paused', 'lane:' .. lane))
say('paused_tenant', redis.call('HGET', P .. 'paused', 'tenant:' .. tenant))
say('paused_subject', redis.call('HGET', P .. 'paused', 'subject:' .. subject_of(qid)))
say('outstanding', redis.call('XLEN', P .. 'stream:' .. lane))
say('lane_seconds', redis.call('HGET', P .. 'lane:seconds', lane))
say('pending', redis.call('LLEN', list))
return answer
