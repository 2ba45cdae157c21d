/* SPDX-License-Identifier: Apache-2.0 */
#include "networks.h"
#include "support.h"

#include <string.h>

void test_hypercube(unsigned dimensions, test_link_fn link)
{
    for (unsigned i = 0; i < 1u << dimensions; i++)
        for (unsigned d = 0; d < dimensions; d++)
            if (!(i & 1u << d))
                link(i, i | 1u << d, 1);
}

void test_grid(unsigned side, unsigned wrap, test_link_fn link)
{
    for (unsigned i = 0; i < side; i++)
        for (unsigned j = 0; j < side; j++) {
            if (wrap || i + 1 < side)
                link(i * side + j, (i + 1) % side * side + j, 1);
            if (wrap || j + 1 < side)
                link(i * side + j, i * side + (j + 1) % side, 1);
        }
}

void test_dgx1(test_link_fn link)
{
    static const unsigned pairs[][3] = {
        {0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
        {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        link(pairs[i][0], pairs[i][1], pairs[i][2]);
}

unsigned test_optimum_rows(void (*row)(char **field))
{
    const char *path = test_corpus_path("../oracles/throughput-optimum.tsv");
    size_t bytes;
    unsigned rows = 0;
    if (!path)
        return 0;
    char *text = test_read_file(path, &bytes);
    for (char *line = text; line && *line;) {
        char *field[5] = {line, NULL, NULL, NULL, NULL};
        char *next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        for (int i = 1; i < 5; i++) {
            field[i] = field[i - 1] ? strchr(field[i - 1], '\t') : NULL;
            if (field[i])
                *field[i]++ = '\0';
        }
        if (*line != '#' && field[4] && strcmp(field[0], "topology") != 0) {
            row(field);
            rows++;
        }
        line = next;
    }
    free(text);
    return rows;
}
