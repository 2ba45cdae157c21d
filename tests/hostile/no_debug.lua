-- SPDX-License-Identifier: Apache-2.0
-- fails: debug
debug.sethook()
