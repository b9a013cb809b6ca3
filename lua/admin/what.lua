-- admin/what.lua: stands behind begin.lua in scripts that look at keys of which nobody knows what they are, and tells by type,
-- size and fields. Reads only, and no value as a whole before it is known to be small.
-- A holder's field is its client's id, which ends with a uuid, and behind a colon the owner: no other hash has such fields.
local HEX = '%x%x%x%x'
local HOLDER = '^[^:]*' .. HEX .. HEX .. '%-' .. HEX .. '%-' .. HEX .. '%-' .. HEX .. '%-' .. HEX .. HEX .. HEX .. ':.'
local function is_holder(field)
  return type(field) == 'string' and #field <= 1024 and string.find(field, HOLDER) ~= nil
end
local function size(command, key, ...)
  local found = redis.pcall(command, key, ...)
  return type(found) == 'number' and found or math.huge
end
local function is_count(text)
  return type(text) == 'string' and string.find(text, '^%-?%d+$') ~= nil and #text <= 20
end
-- `lock`, `read`, `write`, or `foreign`; and some of its holders' fields, all if there are no more than three.
local function what_hash(lock)
  local fields = redis.pcall('HRANDFIELD', lock, '4')
  if fields.err then return 'foreign', {} end
  local holders = {}
  for _, field in ipairs(fields) do
    if is_holder(field) then holders[#holders + 1] = field end
  end
  if #holders == 0 then return 'foreign', holders end
  local length = size('HSTRLEN', lock, 'mode')
  if length == 4 or length == 5 then
    local mode = redis.pcall('HGET', lock, 'mode')
    if mode == 'read' or mode == 'write' then return mode, holders end
  end
  if #fields == 1 and size('HSTRLEN', lock, fields[1]) <= 20 then return 'lock', holders end
  return 'foreign', {}
end
-- `plain`, `number` or `foreign`; and what stands there.
local function what_string(lock, ttl)
  if size('STRLEN', lock) > 64 then return 'foreign', '' end
  local text = redis.pcall('GET', lock)
  if type(text) ~= 'string' then return 'foreign', '' end
  if is_count(text) then return 'number', text end
  -- The token of lockson and of redis-py: 32 hexadecimal digits.
  if ttl > 0 and #text == 32 and not string.find(text, '%X') then return 'plain', text end
  return 'foreign', ''
end
