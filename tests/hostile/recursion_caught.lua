-- SPDX-License-Identifier: Apache-2.0
-- fails: more than its|used up its budget
local function f() return 1 + f() end
while true do pcall(f) end
