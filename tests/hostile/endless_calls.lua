-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local function f() end
while true do f() end
