-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local s = (" "):rep(200000)
while true do pcall(function() return s | 1 end) end
