/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files into memory, and names relative to a directory. */
#ifndef PEAL_TOPO_TOPO_FILE_H
#define PEAL_TOPO_TOPO_FILE_H

#include "base.h"

#define TOPO_FILE_LIMIT ((size_t)64 << 20) /* bytes of one topology file */

/* Reads a file through buf (initialised by the caller with a limit). regular: refuse what
 * is not a plain file. Errors: IO, LIMIT, MEMORY. */
peal_status peal_topo_file_read(const char *path, int regular, struct peal_buf *buf,
                                peal_diag *diag);

#endif
