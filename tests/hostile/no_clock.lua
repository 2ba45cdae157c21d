-- SPDX-License-Identifier: Apache-2.0
-- fails: clock
local t = os and os.clock or clock()
