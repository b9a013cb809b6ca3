-- announce.lua: stands behind begin.lua in the scripts that send a message. By which command and on which channel are the last
-- two of ARGV, and taken off it here. The channel is no key: among KEYS it would have the server refuse the script for as long
-- as the lock's slot moves to another node.
local last = #ARGV
local publish, channel = ARGV[last - 1], ARGV[last]
ARGV[last - 1], ARGV[last] = nil, nil
-- How many heard it; -1 if it is refused, which fails nothing that was done. `whom` ends the name of the channel.
local function announce(message, whom)
  local receivers = redis.pcall(publish, whom and channel .. whom or channel, message)
  if type(receivers) ~= 'number' then return -1 end
  return receivers
end
