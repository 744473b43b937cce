-- Tasks that PostgreSQL has ended while they waited (cancelled, expired): take them out of the queues. One that waits in
-- a list leaves a tombstone that is skipped later, not an LREM through a long list. One that a runner holds is marked,
-- and its runner is told.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4...] task ids
-- Answers: {'LOST'}, or per task 'WITHDRAWN' | 'RUNNING' | 'GONE'.
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include pending
-- @include wake
-- @include place
-- @include numbers
-- @include buckets
-- @include schedule
-- @include giveback

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl = now_ms(ARGV[2]), ARGV[3]
-- As in dispatch: done also where memory is used up, since it frees some.
redis.call('SREM', P .. 'overloaded_macs', '')
local policy = policy_of(P)

-- resolve_head(task): the back-off of an object is that of its head; its successors need not wait for one that is gone.
local function resolve_head(task)
  local meta = meta_key(P, task.queue)
  if split_queue(task.queue) ~= 'object' or redis.call('HEXISTS', meta, 'until') == 0 then return end
  local head = live_head(P, queue_key(P, task.queue), meta, number(redis.call('HGET', meta, 'tombstones')))
  if not head or sequence_of(head) ~= tonumber(task.sequence) then return end
  redis.call('HDEL', meta, 'until')
  redis.call('ZREM', P .. 'deferred', 'queue:' .. task.queue)
end

local function withdraw(id)
  local task = read_task(P, id)
  if not task or task.state == 'settling' or task.state == 'withdrawn' then return 'GONE' end
  if task.state == 'streamed' or task.state == 'held' then
    redis.call('HSET', P .. 'task:' .. id, 'cancel', 1)
    redis.call('PUBLISH', P .. 'cancel', id)
    return 'RUNNING'
  end
  count_pending(P, task.queue, -1)
  resolve_head(task)
  if task.state == 'deferred' then
    redis.call('ZREM', P .. 'deferred', 'task:' .. id)
    redis.call('HINCRBY', meta_key(P, task.queue), 'deferred', -1)
    redis.call('DEL', P .. 'task:' .. id)
  else
    redis.call('HSET', P .. 'task:' .. id, 'state', 'withdrawn')
    redis.call('HINCRBY', meta_key(P, task.queue), 'tombstones', 1)
  end
  local served = reindex(P, policy, task.queue, now, ttl)
  if served ~= '' then wake(P, served) end
  redis.call('PUBLISH', P .. 'done', id)
  return 'WITHDRAWN'
end

local answers = {}
for i = 4, #ARGV do answers[#answers + 1] = withdraw(ARGV[i]) end
return answers
