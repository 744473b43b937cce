-- place(list, element): insert by sequence. A new task belongs at the tail and a given-back one at the head; anything
-- else (a task committed earlier and queued later) is found by bisection, since the list is sorted.
local function place(list, element)
  local sequence = sequence_of(element)
  local tail = redis.call('LINDEX', list, -1)
  if not tail or sequence_of(tail) < sequence then
    redis.call('RPUSH', list, element)
    return
  end
  local low, high = 0, redis.call('LLEN', list) - 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if sequence_of(redis.call('LINDEX', list, middle)) < sequence then low = middle + 1 else high = middle end
  end
  redis.call('LINSERT', list, 'BEFORE', redis.call('LINDEX', list, low), element)
end
