-- number(value): a number from a field that may be missing. exact(value): a double that survives being a string.
local function number(value)
  return tonumber(value or '0') or 0
end

local function exact(value)
  return string.format('%.17g', value)
end
