-- Back-off of a queue: it leaves the schedule until a time, and the deferred set brings it back.

-- block_until(P, qid, due): keep a queue out of the schedule at least until then.
local function block_until(P, qid, due)
  local meta = meta_key(P, qid)
  if number(redis.call('HGET', meta, 'until')) < due then redis.call('HSET', meta, 'until', due) end
  redis.call('ZADD', P .. 'deferred', 'GT', due, 'queue:' .. qid)
  wake(P, '@deferred')
end

-- curve(n, base, most): base × 2^(n − 1), at most most.
local function curve(n, base, most)
  return math.min(base * 2 ^ math.min(n - 1, 40), most)
end

-- count_failure(P, qid, now, threshold, base, most): after threshold failures in a row a queue backs off, and then is
-- half open: one task at a time probes until one succeeds.
local function count_failure(P, qid, now, threshold, base, most)
  if threshold == 0 then return end
  local failures = redis.call('HINCRBY', meta_key(P, qid), 'failures', 1)
  if failures >= threshold then
    redis.call('HSET', meta_key(P, qid), 'probing', 1)
    block_until(P, qid, now + curve(failures - threshold + 1, base, most))
  end
end

local function count_success(P, qid)
  redis.call('HDEL', meta_key(P, qid), 'failures', 'probing')
end
