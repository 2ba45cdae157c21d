-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
coroutine.resume(coroutine.create(function() while true do end end))
return {}
