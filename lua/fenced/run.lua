-- fenced/run.lua: a caller's script, only if this owner still holds the lock.
-- KEYS[1] lock  hash  owner -> hold count
-- KEYS[i] after that, the script's own
-- ARGV[3] owner  ARGV[4] token, for the script  ARGV[5] its text  ARGV[i] after that, its own arguments
-- Returns {1, nonce, now, v1 .. vn} it ran: its value, each part behind its kind (nil, int, text, list and length),
--   or 'error' and what it raised; {3, nonce, now} not held by this owner; {4, nonce, now, error} another type;
--   {6, nonce, now, error} it does not compile. It ran only if the first is 1.
-- Redisson: has none.
local lock, owner, token, text = KEYS[1], ARGV[3], ARGV[4], ARGV[5]
local held = redis.pcall('HEXISTS', lock, owner)
if type(held) == 'table' then return {4, nonce, now, held.err} end
if held == 0 then return {3, nonce, now} end
-- Compiled here, not joined to this file: each text would stay in the server's cache of scripts.
local script, wrong = loadstring('local KEYS, ARGV, token = ... ' .. text, '@script')
if not script then return {6, nonce, now, wrong} end
local keys, args, reply = {}, {}, {1, nonce, now}
for i = 2, #KEYS do keys[i - 1] = KEYS[i] end
for i = 6, #ARGV do args[i - 5] = ARGV[i] end
local function put(value)
  local kind = type(value)
  if kind == 'table' and value.err then error(value.err, 0) end
  if kind == 'table' and value.ok then value, kind = value.ok, 'string' end
  if kind == 'table' then
    local length = 0
    for i in ipairs(value) do length = i end
    reply[#reply + 1], reply[#reply + 2] = 'list', length
    for _, item in ipairs(value) do put(item) end
  elseif kind == 'string' then
    reply[#reply + 1], reply[#reply + 2] = 'text', value
  elseif kind == 'number' or value == true then
    reply[#reply + 1], reply[#reply + 2] = 'int', value
  else
    reply[#reply + 1] = 'nil'
  end
end
local ran, raised = pcall(function() put(script(keys, args, token)) end)
if ran then return reply end
if type(raised) == 'table' then raised = raised.err end
return {1, nonce, now, 'error', tostring(raised)}
