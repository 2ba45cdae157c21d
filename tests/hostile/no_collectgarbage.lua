-- SPDX-License-Identifier: Apache-2.0
-- fails: collectgarbage
collectgarbage("stop")
