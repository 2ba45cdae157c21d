-- SPDX-License-Identifier: Apache-2.0
-- fails: syntax error
this is no lua
