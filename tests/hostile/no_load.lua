-- SPDX-License-Identifier: Apache-2.0
-- fails: load
load("return 1")()
