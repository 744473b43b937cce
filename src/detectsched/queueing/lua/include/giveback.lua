-- leave_stream(P, task, id): take a task out of its lane's stream and free its place in its queue's in-flight count.
-- task: a table with queue, lane, state, entry as read from the task's hash.
local function leave_stream(P, task)
  if task.state == 'streamed' then
    local stream = P .. 'stream:' .. task.lane
    redis.call('XACK', stream, GROUP, task.entry)
    redis.call('XDEL', stream, task.entry)
  else
    redis.call('ZREM', P .. 'deferred', 'held:' .. task.id)
  end
  redis.call('HINCRBY', meta_key(P, task.queue), 'inflight', -1)
end

-- read_task(P, id): the hash of a task as a table, or nil.
local function read_task(P, id)
  local h = redis.call('HMGET', P .. 'task:' .. id, 'state', 'queue', 'lane', 'delivery', 'entry', 'created', 'cost', 'sequence', 'owner')
  if not h[1] then return nil end
  return {id = id, state = h[1], queue = h[2], lane = h[3], delivery = h[4], entry = h[5], created = h[6], cost = h[7],
    sequence = h[8], owner = h[9]}
end

-- is_out(task, delivery): the task is with a runner, under this very delivery.
local function is_out(task, delivery)
  return task and (task.state == 'streamed' or task.state == 'held') and task.delivery == delivery
end

-- put_back(P, task): return a task to its queue, in its place by sequence.
local function put_back(P, task)
  redis.call('HSET', P .. 'task:' .. task.id, 'state', 'queued')
  redis.call('HDEL', P .. 'task:' .. task.id, 'entry')
  place(queue_key(P, task.queue), element_of(task.lane, task.created, task.cost, task.sequence, task.id))
end
