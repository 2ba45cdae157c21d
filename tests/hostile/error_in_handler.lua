-- SPDX-License-Identifier: Apache-2.0
-- fails: oh
xpcall(function() error("x") end, function() error("y") end)
error("oh")
