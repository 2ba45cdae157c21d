-- SPDX-License-Identifier: Apache-2.0
-- luarocks make, where libpeal and its header are installed.
package = "peal"
version = "0.1-1"
source = { url = "git+file://." }
description = {
  summary = "Collective schedules from a topology: planned, proven, simulated, run",
  license = "Apache-2.0",
}
dependencies = { "lua ~> 5.4" }
external_dependencies = {
  PEAL = { header = "peal/peal.h", library = "peal" },
}
build = {
  type = "builtin",
  modules = {
    peal = {
      sources = { "module.c", "module_fabric.c", "module_model.c", "module_run.c", "module_table.c" },
      libraries = { "peal", "pthread" },
      incdirs = { "$(PEAL_INCDIR)" },
      libdirs = { "$(PEAL_LIBDIR)" },
    },
  },
}
