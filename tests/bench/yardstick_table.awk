# SPDX-License-Identifier: Apache-2.0
# The table of run_yardstick.sh from the yardstick's rows. stat: "min", the least time of any block
# of any round; else the median over rounds of the medians.
function class(ns) { return ns < 100 ? "near" : "far" }
function median(list,   v, n, i, j, t) {
    n = split(list, v, " ")
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && v[j] + 0 < v[j - 1] + 0; j--) {
            t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
        }
    if (stat == "min")
        return v[1]
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
function has(key, who) { return (key, who) in back }
# The better of the MPI libraries that ran.
function bar(key, set,   a, b) {
    a = (key, "ompi") in set ? median(set[key, "ompi"]) : -1
    b = (key, "mpich") in set ? median(set[key, "mpich"]) : -1
    return a < 0 ? b : b < 0 || a < b ? a : b
}
function show(key, who) { return has(key, who) ? sprintf("%.2f", median(back[key, who])) : "-" }
function ratio(key, set, who, against) {
    return ((key, who) in set) && against > 0 ? sprintf("%.2f", median(set[key, who]) / against) : "-"
}
function to_ref(key, set) {
    return has(key, "ref") ? ratio(key, set, "peal", median(set[key, "ref"])) : "-"
}
# The way of `least` that took least; "": none ran.
function best(key, set,   who, way) {
    way = ""
    for (who in ways)
        if ((key, who) in set && (way == "" || median(set[key, who]) < median(set[key, way])))
            way = who
    return way
}
function target(what, ranks, bytes) {
    if (what == "bcast")
        return bytes < 4096 ? 1.00 : 0.67
    return ranks <= 2 ? 0.67 : 0.80
}
function verdict(key, set,   most, way, field) {
    split(key, field, " ")
    most = target(field[1], field[2] + 0, field[3] + 0) * bar(key, set)
    way = best(key, set)
    if (most <= 0 || !((key, "private") in set))
        return "-"
    if (median(set[key, "private"]) <= most)
        return "met"
    return way != "" && median(set[key, way]) > most ? "beyond" : "missed"
}
# Two columns: back to back, and apart.
function both(first, second) { return sprintf(" %9s %6s", first, second) }
BEGIN {
    form = "%-9s %2s %9s %-4s %9s %9s %9s %9s %9s %9s%s%s%s%s %s\n"
    printf form, "what", "N", "bytes", "flag", "peal", "private", "ref", "ompi", "mpich", "least",
        both("peal/ref", "apart"), both("priv/mpi", "apart"), both("least/mpi", "apart"),
        both("verdict", "apart"), "way"
}
$1 == "R" && class($(NF - 1)) == class($NF) {
    key = sprintf("%-9s %2d %9d %-4s", $3, $4, $5, $4 > 2 ? "any" : class($NF))
    back[key, $2] = back[key, $2] " " (stat == "min" ? $9 : $8)
    apart[key, $2] = apart[key, $2] " " (stat == "min" ? $12 : $11)
    keys[key] = 1
    if ($2 ~ /^least/)
        ways[$2] = 1
}
function row(key,   b, a) {
    b = best(key, back)
    a = best(key, apart)
    return sprintf("%s %9s %9s %9s %9s %9s %9s%s%s%s%s %s", key, show(key, "peal"),
        show(key, "private"), show(key, "ref"), show(key, "ompi"), show(key, "mpich"),
        show(key, b), both(to_ref(key, back), to_ref(key, apart)),
        both(ratio(key, back, "private", bar(key, back)),
             ratio(key, apart, "private", bar(key, apart))),
        both(ratio(key, back, b, bar(key, back)), ratio(key, apart, a, bar(key, apart))),
        both(verdict(key, back), verdict(key, apart)), substr(b, 7))
}
END {
    for (key in keys)
        print row(key) | "sort -k1,1 -k2,2n -k3,3n -k4,4"
}
