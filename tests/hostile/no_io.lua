-- SPDX-License-Identifier: Apache-2.0
-- fails: io
io.open("x", "w")
