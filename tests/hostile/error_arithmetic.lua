-- SPDX-License-Identifier: Apache-2.0
-- fails: arithmetic
local t = {} + 1
