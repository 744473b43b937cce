-- Names of keys, as in queueing/keys.py. P is the prefix with the hash tag and a closing colon.

local GROUP = 'runners'

-- prefix_of(generation_key): every script is given the generation key, and finds its neighbours from it.
local function prefix_of(generation_key)
  return string.sub(generation_key, 1, -1 - #'generation')
end

-- split_queue(qid): kind, tenant, rest of '<kind>:<tenant>:<rest>'. Kept for the call: every key of a queue asks for it.
local SPLIT = {}
local function split_queue(qid)
  local parts = SPLIT[qid]
  if not parts then
    parts = {string.match(qid, '^(%a+):([^:]+):(.*)$')}
    SPLIT[qid] = parts
  end
  return parts[1], parts[2], parts[3]
end

-- subject_of(qid): what a queue's backlog and pause are kept under: '<tenant>:<mac>' or '<tenant>:object:<name>'.
local function subject_of(qid)
  local kind, tenant, rest = split_queue(qid)
  if kind == 'object' then return tenant .. ':object:' .. rest end
  return tenant .. ':' .. string.match(rest, '^[^:]*:(.*)$')
end

local function queue_key(P, qid)
  local kind, tenant, rest = split_queue(qid)
  return P .. kind .. ':queue:' .. tenant .. ':' .. rest
end

local function meta_key(P, qid)
  local kind, tenant, rest = split_queue(qid)
  return P .. kind .. ':meta:' .. tenant .. ':' .. rest
end
