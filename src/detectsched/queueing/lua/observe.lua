-- The schedule of one lane as it is: its servable queues in the order in which they would be served, or some named ones.
-- Reads only.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3...] queue ids
-- Answers: {'LOST'}, or {'OK', now_ms, then per queue 13 fields: queue, lane ('' when not scheduled), length,
--   head_created_ms ('' when empty), key, since, until_ms, inflight, limit, weight, failures, defers, paused since ('')}
-- @include keys
-- @include guard
-- @include clock
-- @include element

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local answer = {'OK', now_ms(ARGV[2])}
for i = 3, #ARGV do
  local qid = ARGV[i]
  local list = queue_key(P, qid)
  local lane, created = parse_element(redis.call('LINDEX', list, 0) or '||||')
  local m = redis.call('HMGET', meta_key(P, qid), 'lane', 'key:' .. lane, 'since', 'until', 'inflight', 'limit', 'weight', 'failures',
    'defers')
  local row = {qid, m[1], redis.call('LLEN', list), created, m[2], m[3], m[4], m[5], m[6], m[7], m[8], m[9],
    redis.call('HGET', P .. 'paused', 'subject:' .. subject_of(qid))}
  for j = 1, 13 do answer[#answer + 1] = row[j] or '' end
end
return answer
