-- entitle(P, qid, lane, ttl, limit, weight, rate, burst, tenant_weight, tenant_rate, tenant_burst): note what a queue and
-- its tenant may have. Defaults (no limit, weight 1, no rate) are not stored: most queues have nothing but their key.
local function note(hash, field, value, default)
  if value == default then redis.call('HDEL', hash, field) else redis.call('HSET', hash, field, value) end
end

local function entitle(P, qid, lane, ttl, limit, weight, rate, burst, tenant_weight, tenant_rate, tenant_burst)
  local _, tenant = split_queue(qid)
  local meta, tenant_meta, limits = meta_key(P, qid), tenant_meta_key(P, lane, tenant), tenant_limits_key(P, tenant)
  note(meta, 'limit', limit, '0')
  note(meta, 'weight', weight, '1')
  note(meta, 'rate', rate, '0')
  note(meta, 'burst', burst, '0')
  redis.call('HSET', tenant_meta, 'weight', tenant_weight)
  keep_tenant(P, lane, tenant, ttl)
  note(limits, 'rate', tenant_rate, '0')
  note(limits, 'burst', tenant_burst, '0')
  redis.call('EXPIRE', limits, math.max(ttl, LIMITS_SECONDS))
end
