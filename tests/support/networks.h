/* SPDX-License-Identifier: Apache-2.0 */
/* The networks of oracles/throughput-optimum.tsv that have no switch, link by link, and its rows.
 */
#ifndef PEAL_TESTS_NETWORKS_H
#define PEAL_TESTS_NETWORKS_H

/* `count` links each way between a and b, told once. */
typedef void (*test_link_fn)(unsigned a, unsigned b, unsigned count);

void test_hypercube(unsigned dimensions, test_link_fn link);
/* side x side nodes; wrap: the ends of rows and columns are joined (a torus) */
void test_grid(unsigned side, unsigned wrap, test_link_fn link);
/* Two fully connected quads, a cube between them; half of the links are double. */
void test_dgx1(test_link_fn link);

/* Calls `row` with the five fields of each row: name, ranks, links, optimum, trees. They live as
 * long as the call. Returns how many there were; 0: this machine has no corpus. */
unsigned test_optimum_rows(void (*row)(char **field));

#endif
