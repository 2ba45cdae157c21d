-- SPDX-License-Identifier: Apache-2.0
-- fails: more than its|used up its budget
local keep = {}
while true do pcall(function() for i = 1, 1e9 do keep[#keep + 1] = {keep} end end) end
