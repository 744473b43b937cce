-- Serve a lane: pick queues in order, take their turn, and hand tasks to the lane's stream, never more than there is
-- room for. Decisions are made as late as possible: what is in the stream is already next.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4] lane
-- ARGV[5] capacity: free and busy slots of the lane's live runners
-- ARGV[6] batch: a turn in standard tasks of cost
-- ARGV[7] min_batch: a turn while the next candidate starves
-- ARGV[8] starvation_ms
-- ARGV[9] order: fifo | lifo (device queues)
-- ARGV[10] max_tasks this call may send
-- ARGV[11...] consumer names of live runners; what other consumers hold does not use up capacity
-- Answers: {'LOST'}, or {'OK', sent, expired, more ('1' when work and room are left), outstanding}.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include pending
-- @include schedule

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl, lane, capacity = now_ms(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local batch, min_batch, starvation_ms = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local order, max_tasks = ARGV[9], tonumber(ARGV[10])
-- Where memory is used up, the server refuses a script at its first write, unless that one can only free some: what is
-- handed out is how it becomes free.
redis.call('SREM', P .. 'overloaded_macs', '')
local policy = policy_of(P)
local stream, tenants = P .. 'stream:' .. lane, P .. 'mac:schedule:' .. lane
-- A script's work is bounded by what it looks at, not only by what it sends (expired and withdrawn tasks cost too).
local looks_left = max_tasks * 4

-- outstanding(): entries not yet completed, less those that only dead runners hold (they return by their lease).
local function outstanding()
  local count = redis.call('XLEN', stream)
  if count == 0 then return 0 end
  local live = {}
  for i = 11, #ARGV do live[ARGV[i]] = true end
  local summary = redis.call('XPENDING', stream, GROUP)
  for _, holder in ipairs(summary[4] or {}) do
    if not live[holder[1]] then count = count - tonumber(holder[2]) end
  end
  return count
end

-- starving_since(qid): since when the best candidate besides qid has been eligible, or nil.
local function starving_since(tenant, qid)
  local second = redis.call('ZRANGE', tenants .. ':' .. tenant, 0, 1)
  local candidate = second[1] == qid and second[2] or second[1]
  if not candidate then
    local others = redis.call('ZRANGE', tenants, 0, 1)
    local other = others[1] == tenant and others[2] or others[1]
    if other then candidate = redis.call('ZRANGE', tenants .. ':' .. other, 0, 0)[1] end
  end
  return candidate and redis.call('HGET', meta_key(P, candidate), 'since')
end

local sent, expired, room = 0, 0, 0

-- send(qid, id, task): hand one task to the stream.
local function send(id, qid, subject)
  local task = P .. 'task:' .. id
  local delivery = redis.call('HINCRBY', task, 'delivery', 1)
  local entry = redis.call('XADD', stream, '*', 't', id, 'd', delivery)
  redis.call('HSET', task, 'state', 'streamed', 'entry', entry)
  redis.call('HINCRBY', meta_key(P, qid), 'inflight', 1)
  count_pending(P, qid, subject, -1)
  sent, room = sent + 1, room - 1
end

-- take(qid, list): pop the next element and decide its fate; returns the cost that was sent (0 for none) or nil when the
-- queue has nothing more for this lane.
local function take(qid, list, from_tail)
  local element = redis.call('LINDEX', list, from_tail and -1 or 0)
  if not element then return nil end
  local its_lane, _, cost, _, id = parse_element(element)
  if its_lane ~= lane then return nil end
  redis.call(from_tail and 'RPOP' or 'LPOP', list)
  local facts = redis.call('HMGET', P .. 'task:' .. id, 'state', 'expires', 'subject')
  looks_left = looks_left - 1
  if facts[1] ~= 'queued' then
    if facts[1] == 'withdrawn' then
      redis.call('HINCRBY', meta_key(P, qid), 'tombstones', -1)
      redis.call('DEL', P .. 'task:' .. id)
    end
    return 0
  end
  if tonumber(facts[2]) <= now then
    -- Nowhere for no moment: the settlement list holds it until PostgreSQL does.
    redis.call('HSET', P .. 'task:' .. id, 'state', 'settling')
    redis.call('RPUSH', P .. 'settlement', 'expired|' .. id)
    count_pending(P, qid, facts[3], -1)
    expired = expired + 1
    return 0
  end
  send(id, qid, facts[3])
  return tonumber(cost)
end

-- turn(tenant, qid): one turn of one queue.
local function turn(tenant, qid)
  local kind = split_queue(qid)
  local list, meta = queue_key(P, qid), meta_key(P, qid)
  local limit = limit_of(qid, redis.call('HGET', meta, 'limit'))
  local free = limit > 0 and limit - number(redis.call('HGET', meta, 'inflight')) or math.huge
  local since = starving_since(tenant, qid)
  local quantum = since and now - tonumber(since) >= starvation_ms and min_batch or batch
  local served, count = 0, 0
  while room > 0 and sent < max_tasks and looks_left > 0 and count < free and (count == 0 or served < quantum) do
    local cost = take(qid, list, order == 'lifo' and kind == 'mac')
    if not cost then break end
    if cost > 0 then served, count = served + cost, count + 1 end
  end
  redis.call('HSET', meta, 'since', now)
  if served > 0 then charge(P, policy, lane, qid, served, ttl) end
  local next_lane = reindex(P, policy, qid, now, ttl)
  if next_lane ~= '' and next_lane ~= lane then wake(P, next_lane) end
end

room = capacity - outstanding()
while room > 0 and sent < max_tasks and looks_left > 0 do
  local tenant = redis.call('ZRANGE', tenants, 0, 0, 'WITHSCORES')
  if #tenant == 0 then break end
  local first = redis.call('ZRANGE', tenants .. ':' .. tenant[1], 0, 0, 'WITHSCORES')
  if #first == 0 then
    redis.call('ZREM', tenants, tenant[1])
  else
    if policy == 'fair' then
      -- V never goes back: a refund may have lowered the key of the queue that is served.
      local v = number(redis.call('HGET', P .. 'mac:clock', lane))
      redis.call('HSET', P .. 'mac:clock', lane, exact(math.max(v, number(tenant[2]))))
      local tenant_meta = tenant_meta_key(P, lane, tenant[1])
      v = number(redis.call('HGET', tenant_meta, 'v'))
      redis.call('HSET', tenant_meta, 'v', exact(math.max(v, number(first[2]))))
    end
    turn(tenant[1], first[1])
  end
  looks_left = looks_left - 1
end
local more = room > 0 and redis.call('ZCARD', tenants) > 0 and '1' or '0'
return {'OK', sent, expired, more, redis.call('XLEN', stream)}
