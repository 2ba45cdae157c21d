#include "fabric.h"
#include "xml.h"
peal_status peal_topo_read_cluster(peal_fabric *fabric, const struct topo_doc *doc,
                                   const char *base_dir, peal_diag *diag)
{
    (void)fabric; (void)base_dir; (void)doc;
    return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "soon");
}
