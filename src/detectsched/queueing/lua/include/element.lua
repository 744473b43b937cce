-- A queue's element: 'lane|created_ms|cost|sequence|task id', so that the head tells its lane and wait by itself.

local function element_of(lane, created, cost, sequence, id)
  return lane .. '|' .. created .. '|' .. cost .. '|' .. sequence .. '|' .. id
end

-- parse_element(e): lane, created_ms, cost, sequence, task id (all strings).
local function parse_element(e)
  return string.match(e, '^([^|]*)|([^|]*)|([^|]*)|([^|]*)|(.*)$')
end

local function sequence_of(e)
  return tonumber(string.match(e, '^[^|]*|[^|]*|[^|]*|([^|]*)'))
end
