-- Token buckets: of a queue (in its meta) and of its tenant (tenant:limits:<tenant>). rate is in tasks per second, burst
-- is the most at once; without a rate there is no limit.

-- How long a tenant's rate is remembered after its last task: longer than a backlog can wait unserved.
local LIMITS_SECONDS = 86400

local function tenant_limits_key(P, tenant)
  return P .. 'tenant:limits:' .. tenant
end

-- tokens_in(hash, now): the tasks that may start now, and the rate.
local function tokens_in(hash, now)
  local b = redis.call('HMGET', hash, 'rate', 'burst', 'tokens', 'filled')
  local rate = number(b[1])
  if rate <= 0 then return math.huge, 0 end
  local burst = math.max(1, number(b[2]))
  if not b[3] then return burst, rate end
  return math.min(burst, number(b[3]) + math.max(0, now - number(b[4])) / 1000 * rate), rate
end

-- take_tokens(hash, count, now): spend tokens; returns the milliseconds until there is a whole one again (0: now).
-- A negative count returns tokens of tasks that were given back.
local function take_tokens(hash, count, now)
  local tokens, rate = tokens_in(hash, now)
  if rate == 0 then return 0 end
  redis.call('HSET', hash, 'tokens', exact(tokens - count), 'filled', now)
  return tokens - count >= 1 and 0 or math.ceil((1 - tokens + count) / rate * 1000)
end
