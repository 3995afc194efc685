-- JSON produce: every record is a string of 100 characters that ends in a counter, so no two are alike.
-- With a LETTER in front, the records of several runs at the same time differ too.
-- wrk -s produce.lua URL -- PATH RECORDS_PER_REQUEST [LETTER]
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "report.lua")

local DIGITS = 12
local filler = string.rep("x", 100 - DIGITS)
local counter, per_request, head = 0, 1, ""
local parts = {}

local function body()
  for i = 1, per_request do
    parts[i] = string.format('{"value":"%s%012d"}', filler, counter)
    counter = counter + 1
  end
  return '{"records":[' .. table.concat(parts, ",", 1, per_request) .. ']}'
end

function init(args)
  per_request = tonumber(args[2])
  if args[3] then filler = args[3] .. filler:sub(2) end
  local sample = body()
  counter = 0
  local headers = { ["Content-Type"] = "application/vnd.kafka.json.v2+json" }
  for name, value in pairs(wrk.headers) do headers[name] = value end
  local whole = wrk.format("POST", args[1], headers, sample)
  -- All bodies have the same length, and therefore the same head: formatting it each time would cost more than the body.
  head = whole:sub(1, #whole - #sample)
end

function request()
  return head .. body()
end
