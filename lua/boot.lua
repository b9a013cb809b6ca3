-- boot.lua: stands before scripts that have to know since when the server has lost no data (rule 21 of docs/PROTOCOL.md).
-- A marker says it: the first call of a run of the server writes it, and with the data it is lost. One of another run came
-- with a copy of the data, which may lack the last of it, and one ahead of the clock tells nothing: both are written anew.
-- Of a node of a cluster it lies in one of its slots. Where that is on its way to another node, nothing is known.
-- string  since_ms run_id; no TTL
-- trusts_uptime: where there is none, the process says it: its uptime is up to a second too long.
local function whole_since(boot, trusts_uptime)
  local server = redis.pcall('INFO', 'server')
  if type(server) == 'table' then return nil, server.err end
  local run = string.match(server, 'run_id:(%w+)') or ''
  local found = redis.pcall('GET', boot)
  if type(found) == 'table' then
    if string.find(found.err, 'non local key', 1, true) then return now, run end
    return nil, found.err
  end
  local since, of = string.match(found or '', '^(%d+) (%w+)$')
  since = tonumber(since)
  if of ~= run or since > now then
    since = now
    if trusts_uptime and not found then
      local uptime = tonumber(string.match(server, 'uptime_in_seconds:(%d+)')) or 0
      since = now - math.max(uptime - 1, 0) * 1000
    end
    local set = redis.pcall('SET', boot, string.format('%.0f %s', since, run))
    if set.err then return nil, set.err end
  end
  return since, run
end
