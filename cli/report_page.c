/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a report: its head, its style, text, and the notes of the topology. */
#include "report.h"

#include <math.h>
#include <string.h>

/* Colours by role, light and dark. --s0... are those of algorithms, told apart also by those who
 * do not see red or green (after Okabe and Ito, then Tol). */
static const char drawn[] =
    ":root{--bg:#fbfbf9;--fg:#1d2126;--muted:#5d6670;--line:#d5d9dd;--panel:#fff;--box:#eef1f4;"
    "--gpu:#dcefd9;--nic:#fbe7cd;--cpu:#dbe7f6;--sw:#e8e1f3;--hot:#c62828;--warn:#9a5b00;"
    "--nvlink:#2f8f3a;--xgmi:#c0392b;--c2c:#00838f;--pcie:#3b6fb6;--smp:#7a4fa3;--net:#c77700;"
    "--shm:#5d6670;--s0:#0072b2;--s1:#d55e00;--s2:#009e73;--s3:#b0529a;--s4:#a88500;--s5:#2a9bd0;"
    "--s6:#882255;--s7:#117733;--s8:#6c6cc4;--s9:#994f00;--s10:#555f69;--s11:#c2185b;"
    "--s12:#4f7f7f;--s13:#7b8a00;--s14:#e69f00;--s15:#4a148c;--s16:#1b5e20;--s17:#8d6e63;"
    "--s18:#0097a7;--s19:#5d4037;--s20:#6d6c00}"
    "@media(prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e6e8ea;--muted:#9aa4ae;"
    "--line:#363c43;--panel:#1c2024;--box:#2a3036;--gpu:#23402a;--nic:#46361f;--cpu:#223550;"
    "--sw:#382f4a;--hot:#ff6b5e;--warn:#f0b04e;--nvlink:#66c770;--xgmi:#ff7a6b;--c2c:#4fc3d0;"
    "--pcie:#7fb0f0;--smp:#b890e0;--net:#f0a840;--shm:#9aa4ae;--s0:#56a9e8;--s1:#ff8a3d;"
    "--s2:#3fcf9f;--s3:#e08acb;--s4:#e0c040;--s5:#8fd0f5;--s6:#e0709f;--s7:#6fc97f;--s8:#a5a5f0;"
    "--s9:#d99a5a;--s10:#7d8894;--s11:#ff7fae;--s12:#8fc7c7;--s13:#c9d94f;--s14:#ffd166;--s15:#"
    "ce93d8;--s16:#a5d6a7;--s17:#bc9a8d;--s18:#4dd0e1;--s19:#d7ccc8;--s20:#dce775}}"
    "svg text{fill:var(--fg);font:11px system-ui,'DejaVu Sans',sans-serif}"
    "svg text.s{font-size:9.5px;fill:var(--muted)}svg text.m{text-anchor:middle}"
    "svg text.e{text-anchor:end}"
    ".box{fill:var(--box);stroke:var(--muted)}.accelerator,.rank{fill:var(--gpu);stroke:var(--"
    "muted)}"
    ".nic{fill:var(--nic);stroke:var(--muted)}.numa{fill:var(--cpu);stroke:var(--muted)}"
    ".nvswitch,.net-switch{fill:var(--sw);stroke:var(--muted)}"
    ".link{fill:none;stroke-width:1.6}.grid{stroke:var(--line);fill:none}"
    ".halo{paint-order:stroke;stroke:var(--panel);stroke-width:3px;stroke-linejoin:round}"
    ".axis{stroke:var(--muted);fill:none}.curve{fill:none;stroke-width:1.4;opacity:.75}"
    ".choice{fill:none;stroke:var(--fg);stroke-width:3;opacity:1}"
    ".bound{fill:none;stroke:var(--hot);stroke-width:1.6;stroke-dasharray:6 4}"
    ".move{fill:var(--s0)}.transfer{fill:var(--s1)}.signal{fill:var(--s4)}.wait{fill:var(--line)}";

static const char style[] =
    "*{box-sizing:border-box}"
    "body{margin:0 auto;padding:1.2rem;max-width:1240px;background:var(--bg);color:var(--fg);"
    "font:15px/1.5 system-ui,'Segoe UI','DejaVu Sans',sans-serif}"
    "h1{font-size:1.6rem;margin:.2rem 0}h2{font-size:1.2rem;margin:2rem 0 .6rem;padding-top:.4rem;"
    "border-top:1px solid var(--line)}h3{font-size:1rem;margin:1.2rem 0 .3rem}"
    "p{margin:.3rem 0 .6rem}.muted,figcaption{color:var(--muted);font-size:.88rem}"
    "figure{margin:.6rem 0;overflow-x:auto;background:var(--panel);border:1px solid var(--line);"
    "border-radius:8px;padding:.7rem}"
    "svg{display:block;width:100%;height:auto;margin:0 auto}"
    ".pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:."
    "8rem}"
    ".pair figure{margin:0}"
    ".scroll{overflow-x:auto}.scroll "
    "table{min-width:58rem}table{border-collapse:collapse;width:100%;font-size:.86rem}"
    "th,td{padding:.28rem .55rem;border-bottom:1px solid var(--line);text-align:left;"
    "vertical-align:top}th{color:var(--muted);font-weight:600}td.n,th.n{text-align:right;"
    "font-variant-numeric:tabular-nums;white-space:nowrap}td.w{white-space:nowrap}"
    "code,pre{font:12px/1.45 ui-monospace,'DejaVu Sans Mono',monospace}"
    "pre{overflow-x:auto;background:var(--panel);border:1px solid var(--line);border-radius:8px;"
    "padding:.7rem}"
    ".key{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:.4rem 0 0;padding:0;list-style:none;"
    "font-size:.86rem}.key i{display:inline-block;width:1.3em;height:.28em;vertical-align:middle;"
    "margin-right:.4em;border-radius:2px;background:currentColor}"
    ".facts{display:flex;flex-wrap:wrap;gap:.4rem 1.6rem;margin:.6rem 0}.facts b{display:block;"
    "font-size:1.25rem}.facts span{color:var(--muted);font-size:.84rem}"
    ".warning{color:var(--warn)}"
    ".found{padding:.45rem 0;border-bottom:1px solid var(--line)}.found p{margin:0}"
    ".found code{overflow-wrap:anywhere}"
    "@media print{body{max-width:none;padding:0}figure,table,pre{break-inside:avoid}"
    "h2{break-after:avoid}}";

/* Of a drawing: smaller, its texts are not read. A narrow screen scrolls instead. */
#define LEAST_SCALE 0.8

void page_style(FILE *file)
{
    fputs(drawn, file);
    static const char *const classes[] = {"nvlink", "xgmi", "c2c", "pcie", "smp", "net", "shm"};
    for (int i = 0; i < (int)COLOURS; i++)
        fprintf(file, ".c%d{stroke:var(--s%d)}.f%d{fill:var(--s%d)}.k%d{color:var(--s%d)}", i, i, i,
                i, i, i);
    for (size_t i = 0; i < COUNT_OF(classes); i++)
        fprintf(file, ".link.%s{stroke:var(--%s)}.key .%s{color:var(--%s)}", classes[i], classes[i],
                classes[i], classes[i]);
}

void page_text(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else if (*text == '"')
            fputs("&quot;", file);
        else if ((unsigned char)*text >= 0x20 || *text == '\n')
            fputc(*text, file);
    }
}

void page_short(FILE *file, const char *text, size_t room)
{
    char cut[64];
    size_t length = strlen(text);
    if (length <= room || room >= sizeof cut) {
        page_text(file, text);
        return;
    }
    size_t keep = room - 1;
    while (keep > 0 && ((unsigned char)text[keep] & 0xC0) == 0x80) /* whole characters */
        keep--;
    memcpy(cut, text, keep);
    cut[keep] = '\0';
    page_text(file, cut);
    fputs("&#8230;", file);
}

const char *page_time(double us, char *text)
{
    char number[NUMBER_TEXT];
    if (us >= 1e6)
        (void)snprintf(text, NUMBER_TEXT, "%.20s s", real_text(us / 1e6, number));
    else if (us >= 1e3)
        (void)snprintf(text, NUMBER_TEXT, "%.20s ms", real_text(us / 1e3, number));
    else
        (void)snprintf(text, NUMBER_TEXT, "%.20s &#181;s", real_text(us, number));
    return text;
}

const char *page_size(double bytes, char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned power = 0;
    for (; bytes >= 1024 && power + 1 < COUNT_OF(units); power++)
        bytes /= 1024;
    int decimals = !power || bytes >= 100 || bytes - floor(bytes) < 1e-3 ? 0 : bytes < 10 ? 2 : 1;
    (void)snprintf(text, NUMBER_TEXT, "%.*f %s", decimals, bytes, units[power]);
    return text;
}

void page_svg(FILE *file, double width, double height, double most, const char *label)
{
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
            "style=\"max-width:%.0fpx;min-width:%.0fpx\" aria-label=\"",
            width, height, most, width * LEAST_SCALE);
    page_text(file, label);
    fputs("\">\n", file);
}

void page_heading(FILE *file, const char *id, const char *text)
{
    fprintf(file, "<h2 id=\"%s\">", id);
    page_text(file, text);
    fputs("</h2>\n", file);
}

static void fact(FILE *file, uint64_t number, const char *what)
{
    fprintf(file, "<div><b>%llu</b><span>%s</span></div>", (unsigned long long)number, what);
}

void page_begin(const struct report *r)
{
    FILE *file = r->file;
    const char *name = r->info.name && r->info.name[0] ? r->info.name : r->path;
    const char *slash = strrchr(name, '/');
    name = slash && slash[1] ? slash + 1 : name;
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>peal: ",
          file);
    page_text(file, name);
    fputs("</title>\n<style>", file);
    fputs(style, file);
    page_style(file);
    fputs("</style></head>\n<body>\n<h1>", file);
    page_text(file, name);
    fprintf(file,
            "</h1>\n<p class=\"muted\">Report of peal %s. Dialect %s. Times are predictions of the "
            "cost model; bandwidths 1e9 bytes per second, one direction.</p>\n",
            peal_version(), r->info.dialect);
    fputs("<div class=\"facts\">", file);
    fact(file, r->info.hosts, r->info.hosts == 1 ? "host" : "hosts");
    fact(file, r->info.ranks, "ranks");
    fact(file, r->info.numa_nodes, r->info.numa_nodes == 1 ? "NUMA node" : "NUMA nodes");
    fact(file, r->info.nics, r->info.nics == 1 ? "NIC" : "NICs");
    fputs("</div>\n", file);
}

void page_end(FILE *file)
{
    fputs("</body></html>\n", file);
}

/* ---- notes */

static uint32_t put_notes(const struct report *r)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->info.notes; i++) {
        peal_note_info note = {.size = sizeof note};
        if (peal_fabric_note(r->fabric, i, &note) != PEAL_OK || note.warning)
            continue;
        if (count++ == 0)
            fputs("<div class=\"scroll\"><table><tr><th>where</th><th>what</th></tr>\n", r->file);
        const char *path = note.path ? note.path : "";
        const char *slash = strrchr(path, '/');
        fputs("<tr><td><code>", r->file);
        page_text(r->file, slash ? slash + 1 : path);
        if (note.line)
            fprintf(r->file, ":%lu", (unsigned long)note.line);
        fputs("</code></td><td>", r->file);
        page_text(r->file, note.text);
        fputs("</td></tr>\n", r->file);
    }
    return count;
}

/* What was filled in; warnings are among the findings. */
void report_notes(const struct report *r)
{
    page_heading(r->file, "notes", "Notes");
    fputs(put_notes(r) ? "</table></div>\n"
                       : "<p class=\"muted\">None: the file says all that is needed.</p>\n",
          r->file);
}
