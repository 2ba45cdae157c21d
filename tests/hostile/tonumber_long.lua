-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local s = (" "):rep(200000) .. "1"
while true do tonumber(s) end
