-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local function f() return f() end
f()
