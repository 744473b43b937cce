-- A lane has no healthy runner: its queues back off, so that they are not looked at again and again, or their heads are
-- given up. Called again until the schedule of the lane is empty.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4] lane
-- ARGV[5] policy: 'defer' | 'dead_letter'
-- ARGV[6] backoff_base_ms, ARGV[7] backoff_max_ms
-- ARGV[8] max_defers after which the head is given up (0: never)
-- ARGV[9] max_items
-- Answers: {'LOST'}, or {'OK', queues deferred, tasks given up, '1' when more is left}.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include pending
-- @include numbers
-- @include buckets
-- @include schedule
-- @include backoff

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl, lane = now_ms(ARGV[2]), ARGV[3], ARGV[4]
local base, most, max_defers = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local policy, tenants = policy_of(P), P .. 'mac:schedule:' .. lane
local deferred, dead = 0, 0
-- Nobody is missed in a lane that an operator has paused, perhaps because its runners are being replaced.
if is_paused(P, 'lane:' .. lane) then return {'OK', 0, 0, '0'} end

-- give_up(qid): the head goes to the settlement list, which holds it until PostgreSQL does.
local function give_up(qid)
  local element = redis.call('LPOP', queue_key(P, qid))
  local _, _, _, _, id = parse_element(element)
  if redis.call('HGET', P .. 'task:' .. id, 'state') == 'withdrawn' then
    -- So many were withdrawn that not all could be dropped at once; it is not given up, and not counted any more.
    redis.call('HINCRBY', meta_key(P, qid), 'tombstones', -1)
    redis.call('DEL', P .. 'task:' .. id)
    return
  end
  redis.call('HSET', P .. 'task:' .. id, 'state', 'settling')
  redis.call('RPUSH', P .. 'settlement', 'dead|' .. id)
  count_pending(P, qid, -1)
  dead = dead + 1
end

local function back_off(qid)
  local defers = redis.call('HINCRBY', meta_key(P, qid), 'defers', 1)
  if max_defers > 0 and defers > max_defers then give_up(qid) end
  redis.call('SADD', P .. 'unserved:' .. lane, qid)
  block_until(P, qid, now + curve(defers, base, most))
  deferred = deferred + 1
end

for _ = 1, tonumber(ARGV[9]) do
  local tenant = redis.call('ZRANGE', tenants, 0, 0)[1]
  local qid = tenant and redis.call('ZRANGE', tenants .. ':' .. tenant, 0, 0)[1]
  if not qid then break end
  if ARGV[5] == 'dead_letter' then give_up(qid) else back_off(qid) end
  local served = reindex(P, policy, qid, now, ttl)
  if served ~= '' and served ~= lane then wake(P, served) end
end
return {'OK', deferred, dead, redis.call('ZCARD', tenants) > 0 and '1' or '0'}
