/* SPDX-License-Identifier: Apache-2.0 */
/* Real files: what each machine has, what was filled in, what looked wrong. */
#include "test_topo_help.h"

struct machine {
    const char *file;
    const char *dialect;
    uint32_t ranks, nics, numas, warnings, notes; /* notes without warnings */
    peal_link_class link_class;                   /* between ranks 0 and 1 */
    double beta_gbs;
    int direct;
    const char *model;
};

static const struct machine machines[] = {
    {"adpdit_8x4090", "nccl", 8, 1, 2, 4, 0, PEAL_LINK_PCIE, 24, 0, "sm_89"},
    {"aws_p4d.24xl", "nccl", 8, 4, 2, 0, 3, PEAL_LINK_NVLINK, 300, 1, "sm_80"},
    {"aws_p5.48xl_full", "nccl", 8, 32, 1, 0, 2, PEAL_LINK_NVLINK, 450, 1, "sm_90"},
    {"azure_ncv4_a100pcie", "nccl", 4, 1, 4, 7, 1, PEAL_LINK_SMP, 24, 0, "sm_80"},
    {"azure_ndv2_v100", "nccl", 8, 1, 2, 4, 4, PEAL_LINK_NVLINK, 150, 1, "sm_70"},
    {"azure_ndv4_a100", "nccl", 8, 8, 4, 0, 4, PEAL_LINK_NVLINK, 300, 1, "sm_80"},
    {"azure_ndv5_h100", "nccl", 8, 8, 2, 0, 4, PEAL_LINK_NVLINK, 450, 1, "sm_90"},
    {"dgx1_v100_8gpu_berkeley", "nccl", 8, 3, 2, 4, 0, PEAL_LINK_NVLINK, 25, 1, "sm_70"},
    {"dgx_a100_xla", "nccl", 8, 8, 4, 0, 0, PEAL_LINK_NVLINK, 300, 1, "sm_80"},
    {"flagcx_apu_topo_dump", "nccl", 8, 3, 2, 0, 7, PEAL_LINK_NVLINK, 200, 1, "sm_80"},
    {"gcp_a3_h100_8gpu_xla", "nccl", 8, 8, 2, 0, 2, PEAL_LINK_NVLINK, 450, 1, "sm_90"},
    {"mlperf_dell_xe8545_4xa100", "nccl", 4, 2, 6, 7, 4, PEAL_LINK_NVLINK, 100, 1, "sm_80"},
    {"mlperf_hpe675d_a100", "nccl", 8, 4, 4, 0, 0, PEAL_LINK_NVLINK, 300, 1, "sm_80"},
    {"modal_b200_gvisor_a", "nccl", 8, 13, 2, 0, 1, PEAL_LINK_NVLINK, 900, 1, "sm_100"},
    {"nebius_h100_helm", "nccl", 8, 8, 2, 0, 2, PEAL_LINK_NVLINK, 450, 1, "sm_90"},
    {"oci_H100", "nccl", 8, 16, 2, 8, 1, PEAL_LINK_NVLINK, 450, 1, "sm_90"},
    {"oci_flattened", "nccl", 8, 8, 4, 0, 4, PEAL_LINK_NVLINK, 300, 1, "sm_80"},
    {"old_topo_4p1h_bc8570", "rccl", 4, 1, 1, 1, 0, PEAL_LINK_XGMI, 24, 1, "gfx906"},
    {"panlichen_8x3090_mlx", "nccl", 8, 1, 2, 4, 1, PEAL_LINK_PCIE, 24, 0, "sm_86"},
    {"perlmutter_a100_4gpu_4cxi", "nccl", 4, 4, 4, 0, 0, PEAL_LINK_NVLINK, 100, 1, "sm_80"},
    {"simai_8A100_4CX6", "nccl", 8, 5, 2, 0, 0, PEAL_LINK_NVLINK, 300, 1, "sm_80"},
    {"sugarlxn_4xL40_k8s_61net", "nccl", 4, 61, 4, 3, 2, PEAL_LINK_SMP, 16, 0, "sm_89"},
    {"superbench_ndv5_crlf", "nccl", 8, 8, 2, 0, 4, PEAL_LINK_NVLINK, 450, 1, "sm_90"},
    {"tc_topo_8p_950", "rccl", 8, 8, 2, 0, 0, PEAL_LINK_XGMI, 48, 1, "gfx950"},
    {"timez_2xa100_asymmetric", "nccl", 2, 2, 1, 1, 0, PEAL_LINK_NVLINK, 25, 1, "sm_80"},
    {"timez_2xa100_nvlink", "nccl", 2, 2, 1, 0, 0, PEAL_LINK_NVLINK, 300, 1, "sm_80"},
    {"topo_16p1h", "rccl", 16, 8, 4, 0, 0, PEAL_LINK_XGMI, 144, 1, "gfx910"},
    {"topo_4p3l", "rccl", 4, 2, 1, 1, 0, PEAL_LINK_XGMI, 36, 1, "gfx908"},
    {"topo_4p_940", "rccl", 4, 4, 4, 4, 0, PEAL_LINK_XGMI, 48, 1, "gfx940"},
    {"topo_8p6l_4nic", "rccl", 8, 4, 2, 0, 0, PEAL_LINK_XGMI, 36, 1, "gfx908"},
    {"topo_8p_90a", "rccl", 8, 1, 1, 0, 0, PEAL_LINK_XGMI, 36, 1, "gfx910"},
    {"topo_8p_940", "rccl", 8, 8, 2, 0, 0, PEAL_LINK_XGMI, 48, 1, "gfx942"},
    {"topo_8p_pcie", "rccl", 8, 1, 1, 0, 0, PEAL_LINK_PCIE, 12, 1, "gfx906"},
    {"topo_8p_rome_n4", "rccl", 8, 1, 7, 8, 0, PEAL_LINK_SMP, 16, 0, "gfx906"},
    {"vastai_hgx_b200_8x", "nccl", 8, 2, 2, 1, 1, PEAL_LINK_NVLINK, 900, 1, "sm_100"},
    {"vastai_hgx_h200_8x", "nccl", 8, 2, 2, 1, 0, PEAL_LINK_NVLINK, 450, 1, "sm_90"},
};

static const char *corpus_file(const char *folder, const char *name)
{
    static char relative[160];
    (void)snprintf(relative, sizeof relative, "%s/%s.xml", folder, name);
    return test_corpus_path(relative);
}

START_TEST(machines_are_read_as_they_are)
{
    const struct machine *m = &machines[_i];
    const char *path = corpus_file("nccl-topo", m->file);
    if (!path)
        return;
    loaded(path);
    peal_fabric_info info = about();
    peal_path_info first = path_of(0, 1);
    ck_assert_msg(!strcmp(info.dialect, m->dialect) && info.ranks == m->ranks &&
                      info.nics == m->nics && info.numa_nodes == m->numas && info.hosts == 1,
                  "%s: %s ranks %u nics %u numa %u", m->file, info.dialect, info.ranks, info.nics,
                  info.numa_nodes);
    ck_assert_msg(warnings() == m->warnings && info.notes == m->warnings + m->notes,
                  "%s: %u warnings, %u notes", m->file, warnings(), info.notes - warnings());
    ck_assert_msg(first.link_class == m->link_class && near(first.beta_gbs, m->beta_gbs) &&
                      first.direct == m->direct,
                  "%s: %s %g direct %d", m->file, peal_link_class_name(first.link_class),
                  first.beta_gbs, first.direct);
    ck_assert_str_eq(rank_at(0).model, m->model);
}
END_TEST

START_TEST(notes_name_lines_of_the_file)
{
    const char *path = corpus_file("nccl-topo", machines[_i].file);
    if (!path)
        return;
    size_t bytes;
    char *text = test_read_file(path, &bytes);
    uint32_t lines = 1;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    free(text);
    loaded(path);
    uint32_t last = 0;
    for (uint32_t n = 0; n < about().notes; n++) {
        peal_note_info note = {.size = sizeof note};
        ck_assert_int_eq(peal_fabric_note(fabric, n, &note), PEAL_OK);
        ck_assert_msg(note.line >= last && note.line > 0 && note.line <= lines, "line %u of %u",
                      note.line, lines);
        ck_assert_str_eq(note.path, path);
        last = note.line;
    }
}
END_TEST

static void refused_file(const char *folder, const char *name, uint32_t line, uint32_t column,
                         const char *word)
{
    const char *path = corpus_file(folder, name);
    if (!path)
        return;
    ck_assert_int_eq(peal_fabric_load(ctx, path, &diag, &fabric), PEAL_ERR_INPUT);
    ck_assert_ptr_null(fabric);
    ck_assert_msg(diag.line == line && diag.column == column && strstr(diag.text, word),
                  "%s:%u:%u: %s", name, diag.line, diag.column, diag.text);
    ck_assert_str_eq(diag.path, path);
}

START_TEST(files_without_accelerators_say_what_to_add)
{
    refused_file("nccl-topo", "aws_g5.48xl", 12, 1, "class=\"0x030200\"");
    refused_file("nccl-topo", "aws_p5.48xl_min", 15, 1, "no accelerators");
}
END_TEST

/* Columns are where the parser stood, which later versions of it may put elsewhere by one;
 * lines are not up for that. */
START_TEST(malformed_files_are_refused_with_a_place)
{
    static const struct {
        const char *file;
        uint32_t line;
        const char *word;
    } bad[] = {
        {"13_malformedXml", 6, "not well-formed"},
        {"14_truncatedXml", 3, "not well-formed"},
        {"15_noQuotesXml", 1, "not well-formed"},
        {"17_unterminatedCommentXml", 4, "Comment not terminated"},
        {"19_trailingXml", 3, "not well-formed"},
        {"22_mismatchXml", 5, "mismatch: pci line 3 and nic"},
        {"azure_ndv6_gb200_malformed", 7, "mismatch: pci line 6 and cpu"},
        {"nemo_azure_gentopo", 4, "busid \"${gpus_node0[0]}\" is not a PCI bus id"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *path = corpus_file("malformed", bad[i].file);
        if (!path)
            return;
        ck_assert_int_eq(peal_fabric_load(ctx, path, &diag, &fabric), PEAL_ERR_INPUT);
        ck_assert_msg(diag.line == bad[i].line && diag.column > 0 && strstr(diag.text, bad[i].word),
                      "%s:%u:%u: %s", bad[i].file, diag.line, diag.column, diag.text);
    }
}
END_TEST

START_TEST(other_formats_are_told_apart)
{
    refused_file("nccl-graph", "dgx1_v100_graph", 1, 1, "a graph file");
}
END_TEST

START_TEST(each_file_is_itself)
{
    uint64_t digest[sizeof machines / sizeof *machines];
    size_t count = sizeof machines / sizeof *machines;
    for (size_t i = 0; i < count; i++) {
        const char *path = corpus_file("nccl-topo", machines[i].file);
        if (!path)
            return;
        loaded(path);
        digest[i] = about().digest;
        loaded(path);
        ck_assert_uint_eq(digest[i], about().digest);
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            /* The same machine, written with and without carriage returns. */
            int twins = strstr(machines[j].file, "ndv5") && strstr(machines[i].file, "ndv5");
            ck_assert_msg((digest[i] == digest[j]) == twins, "%s and %s", machines[i].file,
                          machines[j].file);
        }
    }
}
END_TEST

/* ---- what only one file shows */

START_TEST(cube_mesh_has_no_paths_over_third_accelerators)
{
    const char *path = corpus_file("nccl-topo", "dgx1_v100_8gpu_berkeley");
    if (!path)
        return;
    loaded(path);
    ck_assert(near(path_of(0, 3).beta_gbs, 50));
    ck_assert_int_eq(path_of(0, 5).link_class, PEAL_LINK_SMP);
    ck_assert_int_eq(path_of(0, 5).direct, 0);
    ck_assert_uint_eq(rank_at(0).nvlink_domain, rank_at(5).nvlink_domain);
}
END_TEST

START_TEST(asymmetric_counts_hold_each_way)
{
    uint32_t line = 0;
    const char *path = corpus_file("nccl-topo", "timez_2xa100_asymmetric");
    if (!path)
        return;
    loaded(path);
    ck_assert(near(path_of(0, 1).beta_gbs, 25));
    ck_assert(near(path_of(1, 0).beta_gbs, 300));
    ck_assert_uint_eq(notes_with(1, "lists 1 links to gpu1, which lists 12 back", &line), 1);
    ck_assert_uint_eq(line, 3);
}
END_TEST

START_TEST(bus_ids_given_twice_are_two_devices)
{
    uint32_t line = 0;
    const char *path = corpus_file("nccl-topo", "mlperf_dell_xe8545_4xa100");
    if (!path)
        return;
    loaded(path);
    ck_assert_uint_eq(notes_with(1, "bus id 0000:ba:00.0", &line), 2);
    ck_assert_uint_eq(line, 15);
    ck_assert_int_eq(peal_topo_rank_nic(fabric, 0), peal_topo_rank_nic(fabric, 1));
}
END_TEST

START_TEST(nics_of_one_accelerator_count_together)
{
    const char *path = corpus_file("nccl-topo", "aws_p5.48xl_full");
    if (!path)
        return;
    loaded(path);
    for (uint32_t r = 0; r < 8; r++)
        ck_assert_int_eq(rank_at(r).nic, (int32_t)(4 * r));
    ck_assert_uint_eq(notes_with(0, "each to themselves", NULL), 1);
    ck_assert_int_eq(nic_at(3).rail, 0);
    ck_assert_int_eq(nic_at(4).rail, 1);
}
END_TEST

START_TEST(real_interfaces_come_before_virtual_ones)
{
    const char *path = corpus_file("nccl-topo", "sugarlxn_4xL40_k8s_61net");
    if (!path)
        return;
    loaded(path);
    for (uint32_t r = 0; r < 4; r++)
        ck_assert_str_eq(nic_at((uint32_t)rank_at(r).nic).name, "enp34s0f0");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("topo corpus");
    TCase *tcase = tcase_create("files");
    int count = (int)(sizeof machines / sizeof *machines);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, machines_are_read_as_they_are, 0, count);
    tcase_add_loop_test(tcase, notes_name_lines_of_the_file, 0, count);
    tcase_add_test(tcase, files_without_accelerators_say_what_to_add);
    tcase_add_test(tcase, malformed_files_are_refused_with_a_place);
    tcase_add_test(tcase, other_formats_are_told_apart);
    tcase_add_test(tcase, each_file_is_itself);
    tcase_add_test(tcase, cube_mesh_has_no_paths_over_third_accelerators);
    tcase_add_test(tcase, asymmetric_counts_hold_each_way);
    tcase_add_test(tcase, bus_ids_given_twice_are_two_devices);
    tcase_add_test(tcase, nics_of_one_accelerator_count_together);
    tcase_add_test(tcase, real_interfaces_come_before_virtual_ones);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK_GETENV);
}
