-- Pause or resume a lane, a tenant, or a device or object (by its queues). What is running goes on.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4] what: 'lane:<lane>' | 'tenant:<tenant>' | 'subject:<subject>'
-- ARGV[5] '1' to pause, '0' to resume
-- ARGV[6] how many lanes follow
-- ARGV[7...] the lanes concerned, then the queues concerned (of a subject)
-- Answers: {'LOST'}, or {'OK'}.
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
local now, ttl, what = now_ms(ARGV[2]), ARGV[3], ARGV[4]
local policy, lanes = policy_of(P), tonumber(ARGV[6])

if ARGV[5] == '1' then redis.call('HSET', P .. 'paused', what, now) else redis.call('HDEL', P .. 'paused', what) end
for i = 7 + lanes, #ARGV do reindex(P, policy, ARGV[i], now, ttl) end
local tenant = string.match(what, '^tenant:(.*)$')
for i = 7, 6 + lanes do
  if tenant then index_tenant(P, policy, ARGV[i], tenant, now, ttl) end
  wake(P, ARGV[i])
end
return {'OK'}
