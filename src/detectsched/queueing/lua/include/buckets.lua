-- Token buckets: of a queue (in its meta) and of its tenant (tenant:limits:<tenant>). rate is in tasks per second, burst
-- is the most at once; without a rate there is no limit.

-- How long a tenant's rate is remembered after its last task: longer than a backlog can wait unserved.
local LIMITS_SECONDS = 86400

local function tenant_limits_key(P, tenant)
  return P .. 'tenant:limits:' .. tenant
end

-- tokens_of(now, rate, burst, tokens, filled): the tasks that may start now, and the rate, by the fields of a bucket.
local function tokens_of(now, rate, burst, tokens, filled)
  rate = number(rate)
  if rate <= 0 then return math.huge, 0 end
  burst = math.max(1, number(burst))
  if not tokens then return burst, rate end
  return math.min(burst, number(tokens) + math.max(0, now - number(filled)) / 1000 * rate), rate
end

local function tokens_in(hash, now)
  return tokens_of(now, unpack(redis.call('HMGET', hash, 'rate', 'burst', 'tokens', 'filled')))
end

-- spend_tokens(hash, count, now, tokens, rate): take them out of what `tokens_in` has found; returns the milliseconds until
-- there is a whole one again (0: now). A negative count returns tokens of tasks that were given back.
local function spend_tokens(hash, count, now, tokens, rate)
  if rate == 0 then return 0 end
  redis.call('HSET', hash, 'tokens', exact(tokens - count), 'filled', now)
  return tokens - count >= 1 and 0 or math.ceil((1 - tokens + count) / rate * 1000)
end
