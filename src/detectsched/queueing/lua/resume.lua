-- A lane has a healthy runner again: the back-offs for want of one end at once.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4] lane
-- ARGV[5] max_items
-- Answers: {'LOST'}, or {'OK', queues resumed, '1' when more are left}.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include numbers
-- @include buckets
-- @include schedule

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl, lane = now_ms(ARGV[2]), ARGV[3], ARGV[4]
local policy, unserved = policy_of(P), P .. 'unserved:' .. lane
local resumed = 0

for _, qid in ipairs(redis.call('SRANDMEMBER', unserved, ARGV[5])) do
  redis.call('SREM', unserved, qid)
  -- A queue that had come back by itself and was served meanwhile has no defers any more, and its until is another's.
  if redis.call('HDEL', meta_key(P, qid), 'defers') == 1 then
    redis.call('HDEL', meta_key(P, qid), 'until')
    redis.call('ZREM', P .. 'deferred', 'queue:' .. qid)
    local served = reindex(P, policy, qid, now, ttl)
    if served ~= '' then wake(P, served) end
    resumed = resumed + 1
  end
end
return {'OK', resumed, redis.call('SCARD', unserved) > 0 and '1' or '0'}
