-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local t, n = {}, 0
for i = 1, 30000 do t[i] = i % 7 end
while true do table.sort(t, function(a, b) return true end) end
