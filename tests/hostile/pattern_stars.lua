-- SPDX-License-Identifier: Apache-2.0
-- fails: used up its budget
local s = ("a"):rep(4000)
s:match(("a*"):rep(20) .. "b")
