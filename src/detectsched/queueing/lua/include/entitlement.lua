-- What a queue and its tenant may have. Defaults (no limit, weight 1, no rate) are not stored: most queues have nothing
-- but their key.

-- note(hash, field, value, default, ...): store what is no default, remove what is; two calls at most, however many.
local function note(hash, ...)
  local kept, removed = {}, {}
  for i = 1, select('#', ...), 3 do
    local field, value, default = select(i, ...)
    if value == default then
      removed[#removed + 1] = field
    else
      kept[#kept + 1] = field
      kept[#kept + 1] = value
    end
  end
  if #kept > 0 then redis.call('HSET', hash, unpack(kept)) end
  if #removed > 0 then redis.call('HDEL', hash, unpack(removed)) end
end

local function entitle_queue(P, qid, limit, weight, rate, burst)
  note(meta_key(P, qid), 'limit', limit, '0', 'weight', weight, '1', 'rate', rate, '0', 'burst', burst, '0')
end

local function entitle_tenant(P, lane, tenant, ttl, weight, rate, burst)
  local limits = tenant_limits_key(P, tenant)
  redis.call('HSET', tenant_meta_key(P, lane, tenant), 'weight', weight)
  keep_tenant(P, lane, tenant, ttl)
  note(limits, 'rate', rate, '0', 'burst', burst, '0')
  redis.call('EXPIRE', limits, math.max(ttl, LIMITS_SECONDS))
end
