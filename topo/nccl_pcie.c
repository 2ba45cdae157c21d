/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a <pci>'s link upward is, also where the file leaves it out. */
#include "defaults.h"
#include "nccl.h"
#include "topo_text.h"

#include <string.h>

/* PCIe of a device that is known but states no speed. */
static const char *speed_of_device(const struct nccl_reader *reader, const struct topo_elem *pci)
{
    const struct topo_elem *gpu = peal_topo_child(reader->doc, pci, "gpu");
    const struct topo_device *device;
    const struct topo_nic_device *nic;
    uint64_t vendor = 0;
    uint64_t id = 0;
    int64_t arch = 0;

    if (peal_topo_nccl_hex(reader, pci, "vendor", 0, &vendor) != PEAL_OK ||
        peal_topo_nccl_hex(reader, pci, "device", 0, &id) != PEAL_OK)
        return NULL;
    device = peal_topo_device(vendor, id);
    nic = peal_topo_nic_device(vendor, id);
    if (gpu && vendor != 0x1002 && peal_topo_nccl_int(reader, gpu, "sm", 0, &arch) != PEAL_OK)
        return NULL;
    if (device && !arch)
        arch = device->arch;
    if (arch >= 100)
        return "32";
    if (arch >= 90 || (nic && nic->gbits > 200))
        return "32";
    if (arch >= 80 || (nic && nic->gbits > 100))
        return "16";
    return arch || nic ? "8" : NULL;
}

/* The fastest link among those below, 0 when none states one. Depth is the document's. */
static double fastest_below(const struct nccl_reader *reader, const struct topo_elem *pci)
{
    const struct topo_elem *child = peal_topo_first(reader->doc, pci);
    double best = 0;

    for (; child; child = peal_topo_next(reader->doc, child)) {
        const char *speed = peal_topo_attr(reader->doc, child, "link_speed");
        double gbs = 0;

        if (!peal_streq(child->name, "pci"))
            continue;
        if (speed && speed[0])
            gbs = peal_topo_pcie_gbs(speed, 16);
        if (gbs <= 0)
            gbs = fastest_below(reader, child);
        if (gbs <= 0) {
            const char *known = speed_of_device(reader, child);

            gbs = known ? peal_topo_pcie_gbs(known, 16) : 0;
        }
        if (gbs > best)
            best = gbs;
    }
    return best;
}

peal_status peal_topo_nccl_pcie(struct nccl_reader *reader, const struct topo_elem *pci,
                                double *gbs_out)
{
    const char *speed = peal_topo_attr(reader->doc, pci, "link_speed");
    const char *busid = peal_topo_attr(reader->doc, pci, "busid");
    const char *known;
    int64_t width;
    double gbs;

    PEAL_TRY(peal_topo_nccl_int(reader, pci, "link_width", 16, &width));
    if (width < 0 || width > 32)
        return peal_topo_nccl_refuse(reader, pci, "link_width is out of range; expected 0 to 32");
    if (width == 0)
        width = 16;
    if (speed && speed[strspn(speed, " ")]) {
        gbs = peal_topo_pcie_gbs(speed, (uint32_t)width);
        if (gbs <= 0) {
            peal_topo_nccl_count(&reader->odd_speed, pci->line, busid);
            gbs = peal_topo_pcie_gbs("8", (uint32_t)width);
        }
        *gbs_out = gbs;
        return PEAL_OK;
    }
    peal_topo_nccl_count(&reader->no_speed, pci->line, busid);
    gbs = fastest_below(reader, pci) * (double)width / 16;
    known = speed_of_device(reader, pci);
    if (gbs <= 0)
        gbs = peal_topo_pcie_gbs(known ? known : "8", (uint32_t)width);
    *gbs_out = gbs;
    return PEAL_OK;
}
