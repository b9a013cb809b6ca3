-- now.lua: stands behind begin.lua, but in the scripts that are called most often: they reckon with no time.
local now = time[1] * 1000 + math.floor(time[2] / 1000)
