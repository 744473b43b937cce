-- A task has reached its terminal state in PostgreSQL: forget it, free its place, let its queue be served again.
-- Idempotent: a task already forgotten answers 'GONE'.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4...] per task, 2 fields: id, delivery
-- Answers: {'LOST'}, or per task 'DONE' | 'GONE' | 'STALE' (it is with somebody else now, or waits again).
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
-- @include place
-- @include schedule
-- @include giveback

local P = prefix_of(KEYS[1])
local lost = guard(P, ARGV[1])
if lost then return {lost} end
local now, ttl = now_ms(ARGV[2]), ARGV[3]
local policy = policy_of(P)

local answers = {}
for i = 4, #ARGV, 2 do
  local id, delivery = ARGV[i], ARGV[i + 1]
  local task = read_task(P, id)
  if not task then
    answers[#answers + 1] = 'GONE'
  elseif not is_out(task, delivery) then
    answers[#answers + 1] = 'STALE'
  else
    leave_stream(P, task)
    redis.call('DEL', P .. 'task:' .. id)
    redis.call('HINCRBY', P .. 'lane:completed', task.lane, 1)
    redis.call('HINCRBYFLOAT', P .. 'lane:served', task.lane, task.cost)
    local served = reindex(P, policy, task.queue, now, ttl)
    wake(P, task.lane)
    if served ~= '' and served ~= task.lane then wake(P, served) end
    redis.call('PUBLISH', P .. 'done', id)
    answers[#answers + 1] = 'DONE'
  end
end
return answers
