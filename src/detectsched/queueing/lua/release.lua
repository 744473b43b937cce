-- Give a task back: its runner will not finish it. It returns to its place by sequence, at once or after a delay.
-- A device's task waits out its delay by itself; an object's task keeps its successors waiting, since order is promised.
-- One that was asked to stop waits for nothing: PostgreSQL has ended it, and its next runner has it forgotten.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4...] per task, 4 fields: id, delivery, delay_ms, refund ('1' when nothing was run: the cost is given back)
-- Answers: {'LOST'}, or per task 'RELEASED' | 'GONE' | 'STALE'.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include pending
-- @include place
-- @include schedule
-- @include giveback

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl = now_ms(ARGV[2]), ARGV[3]
local policy = policy_of(P)

local function release(task, delay, refund)
  if redis.call('HEXISTS', P .. 'task:' .. task.id, 'cancel') == 1 then delay = 0 end
  leave_stream(P, task)
  if refund then charge(P, policy, task.lane, task.queue, -tonumber(task.cost), ttl) end
  count_pending(P, task.queue, task.subject, 1)
  if delay > 0 and split_queue(task.queue) == 'mac' then
    redis.call('HSET', P .. 'task:' .. task.id, 'state', 'deferred')
    redis.call('HDEL', P .. 'task:' .. task.id, 'entry')
    redis.call('ZADD', P .. 'deferred', now + delay, 'task:' .. task.id)
    redis.call('HINCRBY', meta_key(P, task.queue), 'deferred', 1)
    wake(P, '@deferred')
  else
    put_back(P, task)
    if delay > 0 then
      redis.call('HSET', meta_key(P, task.queue), 'until', now + delay)
      redis.call('ZADD', P .. 'deferred', now + delay, 'queue:' .. task.queue)
      wake(P, '@deferred')
    end
  end
  redis.call('PERSIST', meta_key(P, task.queue))
  local served = reindex(P, policy, task.queue, now, ttl)
  wake(P, task.lane)
  if served ~= '' and served ~= task.lane then wake(P, served) end
end

local answers = {}
for i = 4, #ARGV, 4 do
  local task = read_task(P, ARGV[i])
  if not task then
    answers[#answers + 1] = 'GONE'
  elseif not is_out(task, ARGV[i + 1]) then
    answers[#answers + 1] = 'STALE'
  else
    release(task, tonumber(ARGV[i + 2]), ARGV[i + 3] == '1')
    answers[#answers + 1] = 'RELEASED'
  end
end
return answers
