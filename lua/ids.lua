-- ids.lua: stands behind begin.lua in scripts about permits with ids. An id is 16 raw bytes on the server, as Redisson
-- writes it; in calls it is 32 hexadecimal digits, and several ids are one text without blanks.
-- A call is about at most MOST permits, and frees at most as many expired ones (rule 12).
local MOST = 500
local bytes = setmetatable({}, {__index = function(known, digits)
  known[digits] = string.char(tonumber(digits, 16))
  return known[digits]
end})
local function raw_ids(digits)
  local ids, raw = {}, string.gsub(digits, '%x%x', bytes)
  for at = 1, #raw, 16 do ids[#ids + 1] = string.sub(raw, at, at + 15) end
  return ids
end
-- Returns whether all of these permits are there and not expired, how many are, and when the first of them expires.
local function live(expiries, ids)
  local count, first = 0, nil
  local scores = redis.call('ZMSCORE', expiries, unpack(ids))
  for at = 1, #ids do
    local expiry = tonumber(scores[at] or 0)
    if expiry > now then count, first = count + 1, math.min(first or expiry, expiry) end
  end
  return count == #ids, count, first
end
-- Sets when all of these permits expire. `way` is ZADD's: GT to lengthen only, CH to set it in any case.
local function set_expiry(expiries, way, expiry, ids)
  local entries, text = {}, string.format('%.0f', expiry)
  for _, id in ipairs(ids) do entries[#entries + 1], entries[#entries + 2] = text, id end
  -- The first write is one that is never refused for lack of memory: then Redis lets the other through too.
  redis.call('ZREM', expiries, '')
  redis.call('ZADD', expiries, 'XX', way, unpack(entries))
end
