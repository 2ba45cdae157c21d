-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
while true do ("x"):gsub("x", "y") end
