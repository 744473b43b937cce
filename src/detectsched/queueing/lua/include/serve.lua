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

  -- foremost(): the first queues in order, at most two of each of the first two tenants: enough for who is served now, and
  -- who would be next. With the keys of tenant and queue.
  local function foremost()
    local found, first = {}, redis.call('ZRANGE', tenants, 0, 1, 'WITHSCORES')
    for t = 1, #first, 2 do
      local queues = redis.call('ZRANGE', tenants .. ':' .. first[t], 0, 1, 'WITHSCORES')
      for q = 1, #queues, 2 do
        found[#found + 1] = {tenant = first[t], tenant_key = first[t + 1], qid = queues[q], key = queues[q + 1]}
      end
    end
    return found
  end

  -- first_but(found, excluded): the first that is not a queue of this name; nil when there is none.
  local function first_but(found, excluded)
    for _, each in ipairs(found) do
      if each.qid ~= excluded then return each end
    end
  end

  -- is_starving(qid): it has been eligible, and not served, for the starvation hint.
  local function is_starving(qid)
    return now - number(redis.call('HGET', meta_key(P, qid), 'since')) >= o.starvation_ms
  end

  -- send(id): hand one task to the stream.
  local function send(id)
    local task = P .. 'task:' .. id
    local delivery = redis.call('HINCRBY', task, 'delivery', 1)
    local entry = redis.call('XADD', stream, '*', 't', id, 'd', delivery)
    redis.call('HSET', task, 'state', 'streamed', 'entry', entry)
    sent, room = sent + 1, room - 1
  end

  -- take(qid, list, from_tail): pop the next element and decide its fate; returns the cost that was sent (0 for none), or
  -- nil when the queue has nothing more for this lane. What waits less, the turn counts.
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
      expired = expired + 1
      return 0
    end
    send(id)
    return tonumber(cost)
  end

  -- means_of(tenant, qid): what limits a queue's turn: places free by its in-flight limit, tokens and rate of its own and of
  -- its tenant; and whether it has been deferred for want of a runner.
  local function means_of(tenant, qid)
    local m = redis.call('HMGET', meta_key(P, qid), 'limit', 'probing', 'inflight', 'defers', 'rate', 'burst', 'tokens', 'filled')
    local limit = limit_of(qid, m[1], m[2])
    local own, rate = tokens_of(now, unpack(m, 5, 8))
    local shared, tenant_rate = tokens_in(tenant_limits_key(P, tenant), now)
    return {
      free = limit > 0 and limit - number(m[3]) or math.huge, own = own, rate = rate, shared = shared,
      tenant_rate = tenant_rate, deferred = m[4],
    }
  end

  -- spend(tenant, qid, count, means): take the tokens of what was sent; who has none left leaves the schedule until due.
  -- Returns whether the tenant has none left.
  local function spend(tenant, qid, count, means)
    local wait = spend_tokens(meta_key(P, qid), count, now, means.own, means.rate)
    if wait > 0 then block_until(P, qid, now + wait) end
    local limits = tenant_limits_key(P, tenant)
    wait = spend_tokens(limits, count, now, means.shared, means.tenant_rate)
    if wait == 0 then return false end
    redis.call('HSET', limits, 'until', now + wait)
    redis.call('ZADD', P .. 'deferred', now + wait, 'tenant:' .. tenant)
    redis.call('EXPIRE', limits, math.max(ttl, LIMITS_SECONDS) + math.ceil(wait / 1000))
    wake(P, '@deferred')
    return true
  end

  -- turn(tenant, qid, short): one turn of one queue, cut short for a starving candidate.
  local function turn(tenant, qid, short)
    local list, meta = queue_key(P, qid), meta_key(P, qid)
    local from_tail = order == 'lifo' and split_queue(qid) == 'mac'
    local means = means_of(tenant, qid)
    local places = math.min(means.free, math.floor(means.own), math.floor(means.shared))
    -- Global order of arrival knows no turns: after every task the oldest of all is next.
    local quantum = policy == 'fifo' and 0 or short and o.min_batch or o.batch
    local served, count, sent_before, expired_before = 0, 0, sent, expired
    while room > 0 and sent < max_tasks and looks_left > 0 and count < places and (count == 0 or served < quantum) do
      local cost = take(qid, list, from_tail)
      if not cost then break end
      served, count = served + cost, sent - sent_before
    end
    local gone = count + expired - expired_before
    if gone > 0 then count_pending(P, qid, -gone) end
    if count > 0 then redis.call('HINCRBY', meta, 'inflight', count) end
    redis.call('HSET', meta, 'since', now)
    if count > 0 and means.deferred then redis.call('HDEL', meta, 'defers') end
    local drained = spend(tenant, qid, count, means)
    if served > 0 then charge(P, policy, lane, qid, served) end
    local next_lane = reindex(P, policy, qid, now, ttl)
    if next_lane ~= '' and next_lane ~= lane then wake(P, next_lane) end
    -- Where the queue stays in its place, nobody else has looked at the tenant again.
    if drained then index_tenant(P, policy, lane, tenant, now, ttl) end
  end

  -- pick(found): the queue to be served next: the first; under 'aging' never the one just served for one task while another
  -- starves, or an old backlog would win every choice. Under 'fair' its key has moved on: if it still is the first, that is
  -- its weight, and to leave it out would take its share away for as long as all wait longer than the hint.
  local function pick(found)
    local last = policy == 'aging' and redis.call('HGET', P .. 'lane:last', lane)
    return last and first_but(found, last) or found[1]
  end

  -- move_clock(hash, field, key): V becomes the smallest key that waits, which is the one served. It never goes back,
  -- though a refund may have lowered that key.
  local function move_clock(hash, field, key)
    if number(key) > number(redis.call('HGET', hash, field)) then redis.call('HSET', hash, field, exact(number(key))) end
  end

  if is_paused(P, 'lane:' .. lane) then room = 0 end
  while room > 0 and sent < max_tasks and looks_left > 0 do
    local found = foremost()
    local chosen = pick(found)
    if not chosen then break end
    if policy == 'fair' then
      move_clock(P .. 'mac:clock', lane, chosen.tenant_key)
      move_clock(tenant_meta_key(P, lane, chosen.tenant), 'v', chosen.key)
    end
    local candidate = first_but(found, chosen.qid)
    local short = candidate and is_starving(candidate.qid) or false
    turn(chosen.tenant, chosen.qid, short)
    if short then
      redis.call('HSET', P .. 'lane:last', lane, chosen.qid)
    else
      redis.call('HDEL', P .. 'lane:last', lane)
    end
    looks_left = looks_left - 1
  end
  return sent, expired, room > 0 and redis.call('ZCARD', tenants) > 0
end
