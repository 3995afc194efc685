-- Sends the prepared requests of a file in turn, for ever. In the file each follows its length (4 bytes, little-endian).
-- wrk -s replay.lua URL -- FILE
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "report.lua")

local requests, turn = {}, 0

function init(args)
  local file = assert(io.open(args[1], "rb"))
  while true do
    local size = file:read(4)
    if not size then break end
    local a, b, c, d = size:byte(1, 4)
    requests[#requests + 1] = file:read(a + 256 * (b + 256 * (c + 256 * d)))
  end
  file:close()
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end
