#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page_check.py CHROMIUM PAGE.html WIDTH SCHEME COLOUR...: how a report looks in a browser.

The page is rendered at a fixed width, in the colour scheme light or dark. No two texts of a drawing
may overlap, none may leave its drawing or be narrower than a readable size on a wide screen, the
page may not be wider than the screen, and each COLOUR (a name of the page's own, as --nvlink) has
to be on the picture, inside the drawing of the fabric where it is a link's or a device's.
--keep DIR keeps the pictures.
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib

PROBE = """
<script>
addEventListener('load', () => {
  const bad = [], boxes = {};
  const box = r => [r.left, r.top, r.right, r.bottom].map(v => Math.round(v * 10) / 10);
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect(), texts = [];
    for (const text of svg.querySelectorAll('text')) {
      const r = text.getBoundingClientRect();
      if (!r.width) continue;
      if (r.left < frame.left - 1 || r.right > frame.right + 1 || r.top < frame.top - 1 ||
          r.bottom > frame.bottom + 1) bad.push('leaves its drawing: ' + text.textContent);
      for (const [other, o] of texts) {
        const w = Math.min(r.right, o.right) - Math.max(r.left, o.left);
        const h = Math.min(r.bottom, o.bottom) - Math.max(r.top, o.top);
        if (w > 0.5 && h > 1.5 * frame.width / svg.viewBox.baseVal.width)
          bad.push('overlap: ' + other.textContent + ' | ' + text.textContent);
      }
      texts.push([text, r]);
    }
    if (!svg.querySelector('rect,path')) bad.push('an empty drawing');
  }
  if (document.documentElement.scrollWidth > innerWidth) bad.push('wider than the screen: ' +
      document.documentElement.scrollWidth);
  for (const id of ['fabric', 'choices', 'plan', 'notes'])
    if (!document.getElementById(id)) bad.push('no section ' + id);
  const style = getComputedStyle(document.documentElement), colours = {};
  for (const name of NAMES) colours[name] = style.getPropertyValue(name).trim();
  const figure = document.querySelector('#fabric + figure');
  const out = document.createElement('pre');
  out.id = 'verdict';
  out.textContent = JSON.stringify({bad, colours, fabric: box(figure.getBoundingClientRect()),
      svgs: document.querySelectorAll('svg').length, height: document.documentElement.scrollHeight});
  document.body.append(out);
});
</script></body>
"""


FILLS = {"--gpu", "--nic", "--cpu", "--sw", "--box"}


def browse(chromium, page, width, height, scheme, *more):
    words = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--force-device-scale-factor=1", "--window-size=%d,%d" % (width, height),
             "--disable-extensions", "--no-first-run", "--virtual-time-budget=2000"]
    if scheme == "dark":
        words.append("--blink-settings=preferredColorScheme=0")
    return subprocess.run([*words, *more, "file://" + page], capture_output=True, text=True,
                          timeout=120, check=True).stdout


def unfilter(data, width, height, depth):
    """Rows of a PNG's bytes, after its five filters."""
    rows, at, before = [], 0, bytes(width * depth)
    for _ in range(height):
        kind, row = data[at], bytearray(data[at + 1:at + 1 + width * depth])
        for i in range(len(row)):
            left = row[i - depth] if i >= depth else 0
            up, corner = before[i], before[i - depth] if i >= depth else 0
            if kind == 1:
                row[i] = row[i] + left & 255
            elif kind == 2:
                row[i] = row[i] + up & 255
            elif kind == 3:
                row[i] = row[i] + (left + up) // 2 & 255
            elif kind == 4:
                guess = left + up - corner
                near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up),
                           (abs(guess - corner), 2, corner))[2]
                row[i] = row[i] + near & 255
        rows.append(bytes(row))
        before = row
        at += 1 + width * depth
    return rows


def read_png(path):
    with open(path, "rb") as file:
        raw = file.read()
    at, data = 8, b""
    while at < len(raw):
        size, kind = struct.unpack(">I4s", raw[at:at + 8])
        body = raw[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, bits, colour = struct.unpack(">IIBB", body[:10])
            assert bits == 8 and colour in (2, 6)
            depth = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            data += body
        at += size + 12
    return width, depth, unfilter(zlib.decompress(data), width, height, depth)


def count(picture, region, wanted, near=48):
    """Pixels of about that colour: thin lines are blended with what is beside them."""
    width, depth, rows = picture
    left, top, right, bottom = region
    found = 0
    for y in range(max(0, int(top)), min(len(rows), int(bottom))):
        row = rows[y]
        for x in range(max(0, int(left)), min(width, int(right))):
            at = x * depth
            found += max(abs(row[at + i] - wanted[i]) for i in range(3)) <= near
    return found


def rgb(text):
    text = text.lstrip("#")
    if len(text) == 3:
        text = "".join(c * 2 for c in text)
    return tuple(int(text[i:i + 2], 16) for i in (0, 2, 4))


def look(chromium, page, width, scheme, colours, keep):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    names = sorted({*colours, "--bg", "--fg", "--panel"})
    work = tempfile.mkdtemp()
    probed = os.path.join(work, "probed.html")
    with open(probed, "w", encoding="utf-8") as file:
        file.write(text.replace("</body>", PROBE.replace("NAMES", json.dumps(names))))
    dom = browse(chromium, probed, width, 1000, scheme, "--dump-dom")
    verdict = re.search(r'<pre id="verdict">(.*?)</pre>', dom, re.S)
    if not verdict:
        return ["the page ran no script: " + dom[:200]]
    told = json.loads(verdict[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
    bad = told["bad"]
    if told["svgs"] < 4:
        bad.append("only %d drawings" % told["svgs"])
    shot = os.path.join(keep or work, os.path.basename(page) + ".%d.%s.png" % (width, scheme))
    browse(chromium, os.path.abspath(page), width, int(told["fabric"][3]) + 40, scheme,
           "--screenshot=" + shot)
    picture = read_png(shot)
    if picture[0] != width:
        bad.append("the picture is %d wide" % picture[0])
    whole = (0, 0, width, len(picture[2]))
    share = count(picture, whole, rgb(told["colours"]["--bg"]), 2) / (width * len(picture[2]))
    if not 0.05 < share < 0.95:
        bad.append("the background has %.0f %% of the picture" % (100 * share))
    for name in colours:
        near = 6 if name in FILLS else 48
        if count(picture, told["fabric"], rgb(told["colours"][name]), near) < 60:
            bad.append("no %s (%s) in the drawing of the fabric" % (name, told["colours"][name]))
    return bad


def main():
    words = sys.argv[1:]
    keep = None
    if words[0] == "--keep":
        keep, words = words[1], words[2:]
    chromium, page, width, scheme, *colours = words
    bad = look(chromium, os.path.abspath(page), int(width), scheme, colours, keep)
    for line in bad[:20]:
        print("%s at %s, %s: %s" % (os.path.basename(page), width, scheme, line))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
