-- A task has reached its terminal state in PostgreSQL: forget it, free its place, let its queue be served again.
-- Idempotent: a task already forgotten answers 'GONE'.
-- KEYS[1] generation
-- ARGV[1] generation told
-- ARGV[2] now_ms, '' for Redis TIME
-- ARGV[3] meta_ttl_seconds
-- ARGV[4] failure_threshold, ARGV[5] backoff_base_ms, ARGV[6] backoff_max_ms
-- ARGV[7...] per task, 4 fields: id, delivery, result ('good' | 'bad' | '' for one that says nothing about its queue),
--   seconds of work it really took ('' where that was not measured)
-- Answers: {'LOST'}, or per task 'DONE' | 'GONE' | 'STALE' (it is with somebody else now, or waits again).
-- @include keys
-- @include guard
-- @include clock
-- @include element
-- @include wake
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
local SMOOTHING = 0.05 -- weight of the newest task in the lane's seconds per unit of cost

-- settle_account(task, seconds): the estimate was charged at the dispatch; what the work really took, measured by what
-- such work takes in this lane, corrects it, within a factor of ten so that one stall does not ban a device.
local function settle_account(task, seconds)
  local cost = tonumber(task.cost)
  local usual = number(redis.call('HGET', P .. 'lane:seconds', task.lane))
  local latest = seconds / cost
  local smoothed = usual > 0 and (1 - SMOOTHING) * usual + SMOOTHING * latest or latest
  redis.call('HSET', P .. 'lane:seconds', task.lane, exact(smoothed))
  if usual > 0 then
    local correction = math.max(0.1, math.min(10, latest / usual)) - 1
    charge(P, policy, task.lane, task.queue, correction * cost, ttl)
  end
end

local function complete(task, result, seconds)
  leave_stream(P, task)
  redis.call('DEL', P .. 'task:' .. task.id)
  redis.call('HINCRBY', P .. 'lane:completed', task.lane, 1)
  if seconds ~= '' then settle_account(task, tonumber(seconds)) end
  if result == 'bad' then count_failure(P, task.queue, now, threshold, base, most) end
  if result == 'good' then count_success(P, task.queue) end
  local served = reindex(P, policy, task.queue, now, ttl)
  wake(P, task.lane)
  if served ~= '' and served ~= task.lane then wake(P, served) end
  redis.call('PUBLISH', P .. 'done', task.id)
end

local answers = {}
for i = 7, #ARGV, 4 do
  local task = read_task(P, ARGV[i])
  if not task then
    answers[#answers + 1] = 'GONE'
  elseif not is_out(task, ARGV[i + 1]) then
    answers[#answers + 1] = 'STALE'
  else
    complete(task, ARGV[i + 2], ARGV[i + 3])
    answers[#answers + 1] = 'DONE'
  end
end
return answers
