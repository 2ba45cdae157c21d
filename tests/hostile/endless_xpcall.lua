-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
xpcall(function() while true do end end, function(e) while true do end end)
