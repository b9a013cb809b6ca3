-- ids.lua: stands behind begin.lua in scripts about permits with ids. An id is 16 raw bytes on the server, as Redisson
-- writes it, and 32 hexadecimal digits in calls, where several stand in one text.
local function raw_ids(digits)
  local ids = {}
  for hex in string.gmatch(digits, string.rep('%x', 32)) do
    ids[#ids + 1] = string.gsub(hex, '..', function(two) return string.char(tonumber(two, 16)) end)
  end
  return ids
end
-- Whether all of them are there and not expired; and how many.
local function live(expiries, ids)
  local count = 0
  for _, id in ipairs(ids) do
    local expiry = redis.call('ZSCORE', expiries, id)
    if expiry and tonumber(expiry) > now then count = count + 1 end
  end
  return count == #ids, count
end
