-- Give a task back: its runner will not finish it. It returns to its place by sequence, at once or after a delay.
-- A device's task waits out its delay by itself; an object's task keeps its successors waiting, since order is promised.
-- One that was asked to stop waits for nothing: PostgreSQL has ended it, and its next runner has it forgotten.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4] failure_threshold, ARGV[5] backoff_base_ms, ARGV[6] backoff_max_ms
-- ARGV[7...] per task, 4 fields: id, delivery, delay_ms, why: 'unused' (nothing was run: cost and token are given back),
--   'failed' (it counts as a failure of its queue) or '' (its runner fell silent)
-- Answers: {'LOST'}, or per task 'RELEASED' | 'GONE' | 'STALE'.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include pending
-- @include place
-- @include numbers
-- @include buckets
-- @include schedule
-- @include giveback
-- @include backoff

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl = now_ms(ARGV[2]), ARGV[3]
local threshold, base, most = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local policy = policy_of(P)

local function refund(task)
  local _, tenant = split_queue(task.queue)
  correct_charge(P, policy, task.lane, task.queue, -tonumber(task.cost), ttl)
  spend_tokens(meta_key(P, task.queue), -1, now, tokens_in(meta_key(P, task.queue), now))
  spend_tokens(tenant_limits_key(P, tenant), -1, now, tokens_in(tenant_limits_key(P, tenant), now))
end

local function release(task, delay, why)
  if redis.call('HEXISTS', P .. 'task:' .. task.id, 'cancel') == 1 then delay = 0 end
  leave_stream(P, task)
  if why == 'unused' then refund(task) end
  if why == 'failed' then count_failure(P, task.queue, now, threshold, base, most) end
  count_pending(P, task.queue, 1)
  if delay > 0 and split_queue(task.queue) == 'mac' then
    redis.call('HSET', P .. 'task:' .. task.id, 'state', 'deferred')
    redis.call('HDEL', P .. 'task:' .. task.id, 'entry')
    redis.call('ZADD', P .. 'deferred', now + delay, 'task:' .. task.id)
    redis.call('HINCRBY', meta_key(P, task.queue), 'deferred', 1)
    wake(P, '@deferred')
  else
    put_back(P, task)
    if delay > 0 then block_until(P, task.queue, now + delay) end
  end
  redis.call('PERSIST', meta_key(P, task.queue))
  local served = reindex(P, policy, task.queue, now, ttl)
  wake(P, task.lane)
  if served ~= '' and served ~= task.lane then wake(P, served) end
end

local answers = {}
for i = 7, #ARGV, 4 do
  local task = read_task(P, ARGV[i])
  if not task then
    answers[#answers + 1] = 'GONE'
  elseif not is_out(task, ARGV[i + 1]) then
    answers[#answers + 1] = 'STALE'
  else
    release(task, tonumber(ARGV[i + 2]), ARGV[i + 3])
    answers[#answers + 1] = 'RELEASED'
  end
end
return answers
