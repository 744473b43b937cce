-- The two-level schedule: per lane a ZSET of tenants that have something to serve, and per lane and tenant a ZSET of
-- its servable queues. Under policy 'fair' both are scored by virtual key (start-time fair queueing: Goyal, Vin,
-- Cheng 1996): a queue that becomes ready takes max(its own key, V), V being the key last served. Under 'aging' the
-- score is the arrival of the head, under 'fifo' its sequence. A waiting queue is never re-scored as time passes.
-- Each tenant has a V in each lane, and a queue a key for each: an object whose tasks change lanes must not carry the key
-- of a busy lane into a quiet one. V is forgotten some time after its tenant left the lane; keys of that epoch of V are
-- worth nothing in the next.

local MAX_TOMBSTONES = 100

local function policy_of(P)
  return redis.call('HGET', P .. 'scheduler', 'policy') or 'fair'
end

-- is_paused(P, what): 'lane:…', 'tenant:…' or 'subject:…'. Nearly always nothing is paused, which is asked once a call.
local SOMETHING_PAUSED
local function is_paused(P, what)
  if SOMETHING_PAUSED == nil then SOMETHING_PAUSED = redis.call('EXISTS', P .. 'paused') == 1 end
  return SOMETHING_PAUSED and redis.call('HEXISTS', P .. 'paused', what) == 1
end

-- limit_of(qid, limit, probing): how many tasks of a queue may be in flight (0: any number). One for an object,
-- whatever its meta says or has forgotten: that is the object's mutex. One for a queue that probes after a back-off.
local function limit_of(qid, limit, probing)
  return (split_queue(qid) == 'object' or probing) and 1 or number(limit)
end

local function tenant_meta_key(P, lane, tenant)
  return P .. 'tenant:meta:' .. lane .. ':' .. tenant
end

-- keep_tenant(P, lane, tenant, ttl): what is known of a tenant lives while one of its queues waits to be served, also
-- while the tenant is paused or has used up its rate.
local function keep_tenant(P, lane, tenant, ttl)
  local meta = tenant_meta_key(P, lane, tenant)
  if redis.call('EXISTS', P .. 'mac:schedule:' .. lane .. ':' .. tenant) == 1 then
    redis.call('PERSIST', meta)
  else
    redis.call('EXPIRE', meta, ttl)
  end
end

-- index_tenant(P, policy, lane, tenant, now, ttl): a tenant stands in its lane's schedule while one of its queues does, unless
-- it is paused or has used up its rate.
local function index_tenant(P, policy, lane, tenant, now, ttl)
  local tenants, meta = P .. 'mac:schedule:' .. lane, tenant_meta_key(P, lane, tenant)
  local first = redis.call('ZRANGE', tenants .. ':' .. tenant, 0, 0, 'WITHSCORES')
  if #first == 0 then
    redis.call('ZREM', tenants, tenant)
    redis.call('EXPIRE', meta, ttl)
    return
  end
  redis.call('PERSIST', meta)
  if is_paused(P, 'tenant:' .. tenant) or number(redis.call('HGET', tenant_limits_key(P, tenant), 'until')) > now then
    redis.call('ZREM', tenants, tenant)
  elseif policy ~= 'fair' then
    redis.call('ZADD', tenants, first[2], tenant)
  elseif not redis.call('ZSCORE', tenants, tenant) then
    local v = number(redis.call('HGET', P .. 'mac:clock', lane))
    local key = exact(math.max(number(redis.call('HGET', meta, 'key')), v))
    redis.call('HSET', meta, 'key', key)
    redis.call('ZADD', tenants, key, tenant)
  end
end

-- starting_key(P, lane, tenant, meta): the key of a queue that becomes ready, and the epoch of V; its meta is to note both.
local function starting_key(P, lane, tenant, meta)
  local clock = redis.call('HMGET', tenant_meta_key(P, lane, tenant), 'v', 'epoch')
  local own = redis.call('HMGET', meta, 'key:' .. lane, 'epoch:' .. lane)
  local epoch = clock[2]
  if not epoch then
    epoch = redis.call('HINCRBY', P .. 'mac:clock', '@epoch', 1)
    redis.call('HSET', tenant_meta_key(P, lane, tenant), 'epoch', epoch)
  end
  return exact(math.max(own[2] == epoch and number(own[1]) or 0, number(clock[1]))), epoch
end

-- live_head(P, list, meta, tombstones): the first element that was not withdrawn; of the withdrawn ones, as many as that in
-- the whole list, those on the way are dropped, boundedly.
local function live_head(P, list, meta, tombstones)
  local head = redis.call('LINDEX', list, 0)
  if tombstones == 0 then return head end
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

-- is_servable(P, qid, head, m, now): whether a queue's head may be handed out; m is its meta as `reindex` reads it.
local function is_servable(P, qid, head, m, now)
  if not head then return false end
  local limit = limit_of(qid, m.limit, m.probing)
  if limit > 0 and number(m.inflight) >= limit then return false end
  if number(m['until']) > now then return false end
  return not is_paused(P, 'subject:' .. subject_of(qid))
end

-- leave(P, policy, qid, was, now, ttl): take a queue out of the schedule of the lane in which it stands.
local function leave(P, policy, qid, was, now, ttl)
  local _, tenant = split_queue(qid)
  redis.call('ZREM', P .. 'mac:schedule:' .. was .. ':' .. tenant, qid)
  redis.call('HDEL', meta_key(P, qid), 'lane')
  index_tenant(P, policy, was, tenant, now, ttl)
end

-- enter(P, policy, qid, head, m, now, ttl): put a queue into the schedule of its head's lane, or correct its score there.
local function enter(P, policy, qid, head, m, now, ttl)
  local _, tenant = split_queue(qid)
  local lane, created, _, sequence = parse_element(head)
  local meta, tenants = meta_key(P, qid), P .. 'mac:schedule:' .. lane
  local queues = tenants .. ':' .. tenant
  if policy ~= 'fair' then
    if m.lane ~= lane then
      redis.call('HSET', meta, 'lane', lane, 'since', now)
      redis.call('PERSIST', meta)
    end
    redis.call('ZADD', queues, policy == 'aging' and created or sequence, qid)
    index_tenant(P, policy, lane, tenant, now, ttl)
  elseif m.lane ~= lane then
    local key, epoch = starting_key(P, lane, tenant, meta)
    redis.call('HSET', meta, 'lane', lane, 'since', now, 'key:' .. lane, key, 'epoch:' .. lane, epoch)
    redis.call('PERSIST', meta)
    redis.call('ZADD', queues, key, qid)
    -- A tenant that stands in the schedule stands where it stood, whatever its queues do.
    if not redis.call('ZSCORE', tenants, tenant) then index_tenant(P, policy, lane, tenant, now, ttl) end
  end
  return lane
end

-- hold_until_ready(P, qid, head, m, now): an object's task that may not run yet keeps its successors waiting.
local function hold_until_ready(P, qid, head, m, now)
  local _, _, _, _, id = parse_element(head)
  local ready = number(redis.call('HGET', P .. 'task:' .. id, 'ready'))
  if ready > math.max(now, number(m['until'])) then
    m['until'] = ready
    redis.call('HSET', meta_key(P, qid), 'until', ready)
    redis.call('ZADD', P .. 'deferred', 'GT', ready, 'queue:' .. qid)
  end
end

local META = {'lane', 'inflight', 'limit', 'until', 'probing', 'deferred', 'tombstones'}

-- reindex(P, policy, qid, now, ttl): put a queue where its head, back-off, pause and in-flight limit say it belongs:
-- into the schedule of its head's lane, or nowhere. Called after every change of any of these. Returns the lane or ''.
local function reindex(P, policy, qid, now, ttl)
  local meta = meta_key(P, qid)
  local values, m = redis.call('HMGET', meta, unpack(META)), {}
  for i, name in ipairs(META) do m[name] = values[i] or nil end
  local head = live_head(P, queue_key(P, qid), meta, number(m.tombstones))
  if head and split_queue(qid) == 'object' then hold_until_ready(P, qid, head, m, now) end
  local servable = is_servable(P, qid, head, m, now)
  if m.lane and (not servable or m.lane ~= parse_element(head)) then
    leave(P, policy, qid, m.lane, now, ttl)
    m.lane = nil
  end
  if servable then return enter(P, policy, qid, head, m, now, ttl) end
  -- What is left of an idle queue (its keys, its failures) is kept only as long as it can matter.
  if not head and number(m.inflight) == 0 and number(m.deferred) == 0 then
    redis.call('EXPIRE', meta, math.max(ttl, math.ceil((number(m['until']) - now) / 1000)))
  end
  return ''
end

-- charge(P, policy, lane, qid, cost): add cost ÷ weight to the keys of a queue and of its tenant. The keys are kept under
-- every policy, so that a change of policy finds them right.
local function charge(P, policy, lane, qid, cost)
  local _, tenant = split_queue(qid)
  local meta, tenant_meta = meta_key(P, qid), tenant_meta_key(P, lane, tenant)
  local queues, tenants = P .. 'mac:schedule:' .. lane .. ':' .. tenant, P .. 'mac:schedule:' .. lane
  local function add(hash, field, zset, member)
    local h = redis.call('HMGET', hash, 'weight', field)
    local weight = number(h[1])
    local key = exact(number(h[2]) + cost / (weight > 0 and weight or 1))
    redis.call('HSET', hash, field, key)
    if policy == 'fair' then redis.call('ZADD', zset, 'XX', key, member) end
  end
  add(meta, 'key:' .. lane, queues, qid)
  add(tenant_meta, 'key', tenants, tenant)
end

-- correct_charge(P, policy, lane, qid, cost, ttl): charge afterwards, a negative cost for a refund: by then the tenant may have
-- left the lane.
local function correct_charge(P, policy, lane, qid, cost, ttl)
  local _, tenant = split_queue(qid)
  charge(P, policy, lane, qid, cost)
  keep_tenant(P, lane, tenant, ttl)
end
