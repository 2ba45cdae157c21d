-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local t = {}
while true do table.insert(t, 1, 0) end
