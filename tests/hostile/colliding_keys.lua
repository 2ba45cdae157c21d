-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local t, m = {}, (1 << 14) - 1
for i = 0, 9000 do t[i * m] = i end
while true do local a = t[9000 * m] end
