-- prelude.lua: what a script of the embedded server finds. Run once, with what Rust brings:
--   host     the functions call, pcall, error_reply, status_reply, sha1hex, acl_check_cmd and log of `redis`
--   as_table  makes of any raised value a table {err = ..}: an error of a Rust function is userdata
--   where     source and line of the script that raised; for the handler, as it looks at the stack above that
--   set_globals  makes a table the global one, for chunks of loadstring too
-- Returns run(chunk, keys, argv) -> whether it went well, and its value or {err = .., source = .., line = ..}.
local host, as_table, where, set_globals = ...
local error, pcall, xpcall, rawset, setmetatable, type = error, pcall, xpcall, rawset, setmetatable, type
local loadstring, tostring = loadstring, tostring

local READONLY = 'Attempt to modify a readonly table'
local locked = {}

-- An empty table in front of `target`: what is not in it can be watched, so every write is seen.
local function lock(target)
  local front = {}
  locked[front] = true
  local function refuse() error(READONLY, 2) end
  return setmetatable(front, {__index = target, __newindex = refuse, __metatable = false})
end

local redis = {LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3}
redis.REDIS_VERSION, redis.REDIS_VERSION_NUM = '7.0.15', 0x07000f
for name, value in pairs(host) do redis[name] = value end
-- The C library's generator is shared by the whole process, and Redis has one of its own.
math.random, math.randomseed = nil, nil

local globals = {_VERSION = _VERSION}
for _, name in ipairs({'assert', 'collectgarbage', 'error', 'gcinfo', 'getmetatable', 'ipairs', 'next', 'pairs',
  'rawequal', 'rawget', 'select', 'tonumber', 'tostring', 'type', 'unpack'}) do
  globals[name] = _G[name]
end
for name, library in pairs({redis = redis, string = string, table = table, math = math}) do
  globals[name] = lock(library)
end
globals._G = lock(globals)

-- To a script the string metatable is a locked one too.
getmetatable('').__index = globals.string
getmetatable('').__metatable = lock({__index = globals.string})

setmetatable(globals, {__index = function(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end})

function globals.rawset(target, ...)
  if locked[target] then error(READONLY, 0) end
  return rawset(target, ...)
end

function globals.setmetatable(target, ...)
  if locked[target] then error(READONLY, 0) end
  return setmetatable(target, ...)
end

function globals.loadstring(text, ...)
  -- Compiled code can break the interpreter.
  if type(text) == 'string' and text:sub(1, 1) == '\27' then return nil, 'compiled code is refused' end
  return loadstring(text, ...)
end

local function shown(raised)
  if type(raised) == 'userdata' then return as_table(raised) end
  return raised
end

-- pcall of Redis 7.0 gives the text of an error that redis.call raised, xpcall gives the table to the handler.
local function caught(ok, ...)
  if ok then return ok, ... end
  local raised = shown((...))
  if type(raised) == 'table' and type(raised.err) == 'string' then raised = raised.err end
  return ok, raised
end

function globals.pcall(...) return caught(pcall(...)) end

function globals.xpcall(body, handler)
  return xpcall(body, function(raised) return handler(shown(raised)) end)
end

set_globals(globals._G)

local function handler(raised)
  raised = shown(raised)
  if type(raised) ~= 'table' then raised = {err = 'ERR ' .. tostring(raised)} end
  local source, line = where()
  if source then
    rawset(raised, 'source', source)
    rawset(raised, 'line', line)
  end
  return raised
end

return function(chunk, keys, argv)
  globals.KEYS, globals.ARGV = keys, argv
  return xpcall(chunk, handler)
end
