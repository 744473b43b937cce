-- What queues may have was changed: note it, and put each where that says it belongs.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4...] per queue, 9 fields: queue, lane, limit, weight, rate, burst, tenant weight, tenant rate, tenant burst
-- Answers: {'LOST'}, or per queue the lane in which it is served now, or ''.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include numbers
-- @include buckets
-- @include schedule
-- @include entitlement

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl = now_ms(ARGV[2]), ARGV[3]
local policy = policy_of(P)

local answers = {}
for i = 4, #ARGV, 9 do
  local qid = ARGV[i]
  local lane = ''
  -- A queue that Redis does not know has nothing to be corrected: its next task brings its entitlement along.
  if redis.call('EXISTS', meta_key(P, qid)) == 1 then
    local _, tenant = split_queue(qid)
    entitle_queue(P, qid, unpack(ARGV, i + 2, i + 5))
    entitle_tenant(P, ARGV[i + 1], tenant, ttl, unpack(ARGV, i + 6, i + 8))
    lane = reindex(P, policy, qid, now, ttl)
    if lane ~= '' then wake(P, lane) end
  end
  answers[#answers + 1] = lane
end
return answers
