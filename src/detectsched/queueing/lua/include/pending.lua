-- Counters of waiting tasks: of all, per tenant, per device or object. A field that reaches zero is removed: a quiet device
-- or tenant costs nothing.

local function count_in(hash, field, delta)
  if redis.call('HINCRBY', hash, field, delta) == 0 then redis.call('HDEL', hash, field) end
end

local function count_of_subject(P, qid, delta)
  count_in(P .. 'mac:pending', subject_of(qid), delta)
end

-- count_of_tenant(P, tenant, delta): of the tenant, and of all.
local function count_of_tenant(P, tenant, delta)
  redis.call('INCRBY', P .. 'global_pending', delta)
  count_in(P .. 'tenant:pending', tenant, delta)
end

local function count_pending(P, qid, delta)
  local _, tenant = split_queue(qid)
  count_of_tenant(P, tenant, delta)
  count_of_subject(P, qid, delta)
end
