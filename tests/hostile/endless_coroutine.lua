-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local co = coroutine.wrap(function() while true do coroutine.yield() end end)
while true do co() end
