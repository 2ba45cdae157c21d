-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
while true do pcall(function() while true do end end) end
