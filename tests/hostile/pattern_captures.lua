-- SPDX-License-Identifier: Apache-2.0
-- fails: more than 32 captures
("x"):find(("()"):rep(40))
