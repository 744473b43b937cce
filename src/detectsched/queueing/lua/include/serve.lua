-- serve(P, policy, lane, now, ttl, o): pick queues of a lane in order and let each take its turn, while there is room.
-- Decisions are made as late as possible: what is in the stream is already next.
-- o: room (tasks), max_tasks, batch (a turn in standard tasks of cost), min_batch (a turn while the next candidate
-- starves), starvation_ms, order (fifo | lifo, of device queues).
-- Returns how many tasks were sent and how many had expired, and whether work and room are left.
local function serve(P, policy, lane, now, ttl, o)
  local tenants = P .. 'mac:schedule:' .. lane
  local stream, room, max_tasks, order = P .. 'stream:' .. lane, o.room, o.max_tasks, o.order
  -- A script's work is bounded by what it looks at, not only by what it sends (expired and withdrawn tasks cost too).
  local looks_left = max_tasks * 4
  local sent, expired = 0, 0

  -- first_but(excluded): the best tenant and queue other than the excluded one; nil when there is none.
  local function first_but(excluded)
    for _, tenant in ipairs(redis.call('ZRANGE', tenants, 0, 1)) do
      for _, qid in ipairs(redis.call('ZRANGE', tenants .. ':' .. tenant, 0, 1)) do
        if qid ~= excluded then return tenant, qid end
      end
    end
  end

  -- is_starving(qid): it has been eligible, and not served, for the starvation hint.
  local function is_starving(qid)
    return now - number(redis.call('HGET', meta_key(P, qid), 'since')) >= o.starvation_ms
  end

  -- send(id, qid): hand one task to the stream.
  local function send(id, qid)
    local task = P .. 'task:' .. id
    local delivery = redis.call('HINCRBY', task, 'delivery', 1)
    local entry = redis.call('XADD', stream, '*', 't', id, 'd', delivery)
    redis.call('HSET', task, 'state', 'streamed', 'entry', entry)
    redis.call('HINCRBY', meta_key(P, qid), 'inflight', 1)
    count_pending(P, qid, -1)
    sent, room = sent + 1, room - 1
  end

  -- take(qid, list, from_tail): pop the next element and decide its fate; returns the cost that was sent (0 for none), or
  -- nil when the queue has nothing more for this lane.
  local function take(qid, list, from_tail)
    local element = redis.call('LINDEX', list, from_tail and -1 or 0)
    if not element then return nil end
    local its_lane, _, cost, _, id = parse_element(element)
    if its_lane ~= lane then return nil end
    local facts = redis.call('HMGET', P .. 'task:' .. id, 'state', 'expires', 'ready')
    -- The next of an object, behind a head that has just expired, may not be ready; reindex holds its queue back then.
    if number(facts[3]) > now then return nil end
    redis.call(from_tail and 'RPOP' or 'LPOP', list)
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
      count_pending(P, qid, -1)
      expired = expired + 1
      return 0
    end
    send(id, qid)
    return tonumber(cost)
  end

  -- places_of(tenant, qid, meta): how many tasks of a queue may start now, by its in-flight limit and both rates.
  local function places_of(tenant, qid, meta)
    local m = redis.call('HMGET', meta, 'limit', 'probing', 'inflight')
    local limit = limit_of(qid, m[1], m[2])
    local free = limit > 0 and limit - number(m[3]) or math.huge
    local own, shared = tokens_in(meta, now), tokens_in(tenant_limits_key(P, tenant), now)
    return math.min(free, math.floor(own), math.floor(shared))
  end

  -- spend(tenant, qid, meta, count): take the tokens of what was sent; who has none left leaves the schedule until due.
  local function spend(tenant, qid, meta, count)
    local wait = take_tokens(meta, count, now)
    if wait > 0 then block_until(P, qid, now + wait) end
    local limits = tenant_limits_key(P, tenant)
    wait = take_tokens(limits, count, now)
    if wait > 0 then
      redis.call('HSET', limits, 'until', now + wait)
      redis.call('ZADD', P .. 'deferred', now + wait, 'tenant:' .. tenant)
      redis.call('EXPIRE', limits, math.max(ttl, LIMITS_SECONDS) + math.ceil(wait / 1000))
      wake(P, '@deferred')
    end
  end

  -- turn(tenant, qid): one turn of one queue; returns whether it was cut short for a starving candidate.
  local function turn(tenant, qid)
    local list, meta = queue_key(P, qid), meta_key(P, qid)
    local from_tail = order == 'lifo' and split_queue(qid) == 'mac'
    local places = places_of(tenant, qid, meta)
    local _, candidate = first_but(qid)
    local short = candidate and is_starving(candidate) or false
    -- Global order of arrival knows no turns: after every task the oldest of all is next.
    local quantum = policy == 'fifo' and 0 or short and o.min_batch or o.batch
    local served, count = 0, 0
    while room > 0 and sent < max_tasks and looks_left > 0 and count < places and (count == 0 or served < quantum) do
      local cost = take(qid, list, from_tail)
      if not cost then break end
      if cost > 0 then served, count = served + cost, count + 1 end
    end
    redis.call('HSET', meta, 'since', now)
    if count > 0 then redis.call('HDEL', meta, 'defers') end
    spend(tenant, qid, meta, count)
    if served > 0 then charge(P, policy, lane, qid, served, ttl) end
    local next_lane = reindex(P, policy, qid, now, ttl)
    if next_lane ~= '' and next_lane ~= lane then wake(P, next_lane) end
    index_tenant(P, policy, lane, tenant, now, ttl)
    return short
  end

  -- pick(): the queue to be served next: the first; under 'aging' never the one just served for one task while another
  -- starves, or an old backlog would win every choice. Under 'fair' its key has moved on: if it still is the first, that is
  -- its weight, and to leave it out would take its share away for as long as all wait longer than the hint.
  local function pick()
    if policy == 'aging' then
      local tenant, qid = first_but(redis.call('HGET', P .. 'lane:last', lane))
      if tenant then return tenant, qid end
    end
    return first_but(nil)
  end

  -- move_clock(zset, hash, field): V becomes the smallest key that waits, which is the one served. It never goes back,
  -- though a refund may have lowered that key.
  local function move_clock(zset, hash, field)
    local key = number(redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2])
    if key > number(redis.call('HGET', hash, field)) then redis.call('HSET', hash, field, exact(key)) end
  end

  if redis.call('HEXISTS', P .. 'paused', 'lane:' .. lane) == 1 then room = 0 end
  while room > 0 and sent < max_tasks and looks_left > 0 do
    local tenant, qid = pick()
    if not tenant then break end
    if policy == 'fair' then
      move_clock(tenants, P .. 'mac:clock', lane)
      move_clock(tenants .. ':' .. tenant, tenant_meta_key(P, lane, tenant), 'v')
    end
    if turn(tenant, qid) then
      redis.call('HSET', P .. 'lane:last', lane, qid)
    else
      redis.call('HDEL', P .. 'lane:last', lane)
    end
    looks_left = looks_left - 1
  end
  return sent, expired, room > 0 and redis.call('ZCARD', tenants) > 0
end
