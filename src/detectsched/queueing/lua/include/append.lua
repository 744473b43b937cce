-- append(list, elements, sequences): place several elements of one queue. Those that follow its tail, and one another, go
-- there in one push.
local function append(list, elements, sequences)
  local tail = redis.call('LINDEX', list, -1)
  local last, following = tail and sequence_of(tail) or -math.huge, {}
  local function push()
    if #following > 0 then redis.call('RPUSH', list, unpack(following)) end
    following = {}
  end
  for i, element in ipairs(elements) do
    if sequences[i] > last then
      following[#following + 1], last = element, sequences[i]
    else
      push()
      place(list, element)
    end
  end
  push()
end
