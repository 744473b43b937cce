-- The two-level schedule: per lane a ZSET of tenants that have something to serve, and per lane and tenant a ZSET of
-- its servable queues. Under policy 'fair' both are scored by virtual key (start-time fair queueing: Goyal, Vin,
-- Cheng 1996): a queue that becomes ready takes max(its own key, V), V being the key last served. Under 'aging' the
-- score is the arrival of the head, under 'fifo' its sequence. A waiting queue is never re-scored as time passes.
-- Each tenant has a V in each lane, and a queue a key for each: an object whose tasks change lanes must not carry the key
-- of a busy lane into a quiet one. V is forgotten some time after its tenant left the lane; keys of that epoch of V are
-- worth nothing in the next.

local MAX_TOMBSTONES = 100

local function number(value)
  return tonumber(value or '0') or 0
end

local function exact(value)
  return string.format('%.17g', value)
end

local function policy_of(P)
  return redis.call('HGET', P .. 'scheduler', 'policy') or 'fair'
end

-- limit_of(qid, limit): how many tasks of a queue may be in flight (0: any number). One for an object, whatever its meta
-- says or has forgotten: that is the object's mutex.
local function limit_of(qid, limit)
  return split_queue(qid) == 'object' and 1 or number(limit)
end

local function tenant_meta_key(P, lane, tenant)
  return P .. 'tenant:meta:' .. lane .. ':' .. tenant
end

-- keep_tenant(P, lane, tenant, ttl): what is known of a tenant that waits to be served lives until it is.
local function keep_tenant(P, lane, tenant, ttl)
  local meta = tenant_meta_key(P, lane, tenant)
  if redis.call('ZSCORE', P .. 'mac:schedule:' .. lane, tenant) then
    redis.call('PERSIST', meta)
  else
    redis.call('EXPIRE', meta, ttl)
  end
end

-- index_tenant(P, policy, lane, tenant, ttl): a tenant stands in its lane's schedule while one of its queues does.
local function index_tenant(P, policy, lane, tenant, ttl)
  local tenants = P .. 'mac:schedule:' .. lane
  local first = redis.call('ZRANGE', tenants .. ':' .. tenant, 0, 0, 'WITHSCORES')
  if #first == 0 then
    redis.call('ZREM', tenants, tenant)
  elseif policy ~= 'fair' then
    redis.call('ZADD', tenants, first[2], tenant)
  elseif not redis.call('ZSCORE', tenants, tenant) then
    local meta = tenant_meta_key(P, lane, tenant)
    local v = number(redis.call('HGET', P .. 'mac:clock', lane))
    local key = exact(math.max(number(redis.call('HGET', meta, 'key')), v))
    redis.call('HSET', meta, 'key', key)
    redis.call('ZADD', tenants, key, tenant)
  end
  keep_tenant(P, lane, tenant, ttl)
end

-- starting_key(P, lane, tenant, meta): the key of a queue that becomes ready, noted in its meta with the epoch of V.
local function starting_key(P, lane, tenant, meta)
  local clock = redis.call('HMGET', tenant_meta_key(P, lane, tenant), 'v', 'epoch')
  local own = redis.call('HMGET', meta, 'key:' .. lane, 'epoch:' .. lane)
  local epoch = clock[2]
  if not epoch then
    epoch = redis.call('HINCRBY', P .. 'mac:clock', '@epoch', 1)
    redis.call('HSET', tenant_meta_key(P, lane, tenant), 'epoch', epoch)
  end
  local key = exact(math.max(own[2] == epoch and number(own[1]) or 0, number(clock[1])))
  redis.call('HSET', meta, 'key:' .. lane, key, 'epoch:' .. lane, epoch)
  return key
end

-- live_head(P, list, meta): the first element that was not withdrawn; withdrawn ones are dropped on the way, boundedly.
local function live_head(P, list, meta)
  local head = redis.call('LINDEX', list, 0)
  if number(redis.call('HGET', meta, 'tombstones')) == 0 then return head end
  for _ = 1, MAX_TOMBSTONES do
    if not head then return head end
    local _, _, _, _, id = parse_element(head)
    if redis.call('HGET', P .. 'task:' .. id, 'state') ~= 'withdrawn' then return head end
    redis.call('LPOP', list)
    redis.call('DEL', P .. 'task:' .. id)
    redis.call('HINCRBY', meta, 'tombstones', -1)
    head = redis.call('LINDEX', list, 0)
  end
  return head
end

-- reindex(P, policy, qid, now, ttl): put a queue where its head, back-off, pause and in-flight limit say it belongs:
-- into the schedule of its head's lane, or nowhere. Called after every change of any of these. Returns the lane or ''.
local function reindex(P, policy, qid, now, ttl)
  local _, tenant = split_queue(qid)
  local meta = meta_key(P, qid)
  local head = live_head(P, queue_key(P, qid), meta)
  local m = redis.call('HMGET', meta, 'lane', 'inflight', 'limit', 'until', 'paused', 'deferred')
  local was, inflight, limit = m[1] or '', number(m[2]), limit_of(qid, m[3])
  local lane, created, _, sequence
  local eligible = head and (limit == 0 or inflight < limit) and number(m[4]) <= now and not m[5]
  if head then lane, created, _, sequence = parse_element(head) end
  if was ~= '' and (not eligible or was ~= lane) then
    redis.call('ZREM', P .. 'mac:schedule:' .. was .. ':' .. tenant, qid)
    redis.call('HDEL', meta, 'lane')
    index_tenant(P, policy, was, tenant, ttl)
  end
  if not eligible then
    -- What is left of an idle queue (its keys) is kept only as long as it can matter.
    if not head and inflight == 0 and number(m[6]) == 0 then redis.call('EXPIRE', meta, ttl) end
    return ''
  end
  local queues = P .. 'mac:schedule:' .. lane .. ':' .. tenant
  if was ~= lane then
    redis.call('HSET', meta, 'lane', lane, 'since', now)
    redis.call('PERSIST', meta)
  end
  if policy == 'aging' then
    redis.call('ZADD', queues, created, qid)
  elseif policy == 'fifo' then
    redis.call('ZADD', queues, sequence, qid)
  elseif was ~= lane then
    redis.call('ZADD', queues, starting_key(P, lane, tenant, meta), qid)
  end
  index_tenant(P, policy, lane, tenant, ttl)
  return lane
end

-- charge(P, policy, lane, qid, cost, ttl): add cost ÷ weight to the keys of a queue and of its tenant; a refund is
-- negative. The keys are kept under every policy, so that a change of policy finds them right.
local function charge(P, policy, lane, qid, cost, ttl)
  local _, tenant = split_queue(qid)
  local meta, tenant_meta = meta_key(P, qid), tenant_meta_key(P, lane, tenant)
  local queues, tenants = P .. 'mac:schedule:' .. lane .. ':' .. tenant, P .. 'mac:schedule:' .. lane
  local function add(hash, field, zset, member)
    local weight = number(redis.call('HGET', hash, 'weight'))
    local key = exact(number(redis.call('HGET', hash, field)) + cost / (weight > 0 and weight or 1))
    redis.call('HSET', hash, field, key)
    if policy == 'fair' then redis.call('ZADD', zset, 'XX', key, member) end
  end
  add(meta, 'key:' .. lane, queues, qid)
  add(tenant_meta, 'key', tenants, tenant)
  keep_tenant(P, lane, tenant, ttl)
end
