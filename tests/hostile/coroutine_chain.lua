-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local function go() while true do coroutine.resume(coroutine.create(go)) end end
go()
