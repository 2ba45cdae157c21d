#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page_check.py [--keep DIR] CHROMIUM PAGE.html WIDTH SCHEME COLOURS ...: how reports look in a
browser, one for all of them.

Each page is shown at a fixed width, in the colour scheme light or dark. No two texts of a drawing
may overlap, none may leave its drawing, be too small or hard to tell from what is behind it; the
page may not be wider than the screen, and each of COLOURS (names of the page's own between commas,
as --nvlink,--gpu) has to be on the picture, inside the drawing of the fabric. --keep keeps the
pictures.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile

PROBE = """
(names => {
  const bad = [];
  const box = r => [r.left, r.top, r.right, r.bottom];
  const style = getComputedStyle(document.documentElement), colours = {};
  const channels = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = colour => {
    const [r, g, b] = channels(colour).map(v =>
      v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const clear = colour => colour === 'none' || channels(colour)[3] === 0;
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!clear(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const judge = (text, colour, back) => {
    if (/[\\w]/.test(text) && contrast(colour, back) < 4.5) /* no word: a sample of a colour */
      bad.push('faint: ' + text.trim().slice(0, 60) + ' (' + colour + ' on ' + back + ', ' +
               contrast(colour, back).toFixed(1) + ')');
  };
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect(), texts = [], rects = [];
    for (const rect of svg.querySelectorAll('rect'))
      rects.push([rect.getBoundingClientRect(), getComputedStyle(rect).fill]);
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
      if (r.height < 8.5) bad.push('too small: ' + text.textContent);
      const x = (r.left + r.right) / 2, y = (r.top + r.bottom) / 2;
      const under = rects.filter(([o, fill]) => !clear(fill) && o.left <= x && x <= o.right &&
          o.top <= y && y <= o.bottom).pop();
      judge(text.textContent, getComputedStyle(text).fill, under ? under[1] : behind(svg));
    }
    if (!svg.querySelector('rect,path')) bad.push('an empty drawing');
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const e = node.parentElement;
    if (node.textContent.trim() && !e.closest('svg,script,style') && e.getClientRects().length)
      judge(node.textContent, getComputedStyle(e).color, behind(e));
  }
  if (document.documentElement.scrollWidth > innerWidth) bad.push('wider than the screen: ' +
      document.documentElement.scrollWidth);
  for (const id of ['fabric', 'choices', 'plan', 'notes'])
    if (!document.getElementById(id)) bad.push('no section ' + id);
  for (const name of names) colours[name] = style.getPropertyValue(name).trim();
  const svgs = document.querySelectorAll('svg').length;
  if (svgs < 4) bad.push('only ' + svgs + ' drawings');
  return {bad, colours, fabric: box(document.querySelector('#fabric + figure')
      .getBoundingClientRect()), height: document.documentElement.scrollHeight};
})(NAMES)
"""

# Pixels of about each colour in a region: thin lines are blended with what is beside them.
COUNT = """
(async (picture, wanted) => {
  const image = new Image();
  image.src = 'data:image/png;base64,' + picture;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const paper = canvas.getContext('2d', {willReadFrequently: true});
  paper.drawImage(image, 0, 0);
  return wanted.map(({region: [left, top, right, bottom], rgb: [r, g, b], near}) => {
    const w = Math.min(image.width, Math.floor(right)) - Math.max(0, Math.floor(left));
    const h = Math.min(image.height, Math.floor(bottom)) - Math.max(0, Math.floor(top));
    const {data} = paper.getImageData(Math.floor(left), Math.floor(top), w, h);
    let found = 0;
    for (let i = 0; i < data.length; i += 4)
      found += Math.abs(data[i] - r) <= near && Math.abs(data[i + 1] - g) <= near &&
               Math.abs(data[i + 2] - b) <= near;
    return found;
  });
})(PICTURE, WANTED)
"""

FILLS = {"--gpu", "--nic", "--cpu", "--sw", "--box"}
WORDS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-extensions",
         "--no-first-run", "--force-color-profile=srgb", "--remote-debugging-pipe", "about:blank"]


class Browser:
    """One page of a browser, told what to do over two pipes: objects of JSON, each before a 0."""

    def __init__(self, chromium, home):
        told, self.tell = os.pipe()
        self.hear, heard = os.pipe()
        # The browser's ends are descriptors 3 and 4.
        words = ["bash", "-c", 'exec "$@" 3<&%d 4>&%d' % (told, heard), "browser", chromium,
                 *WORDS, "--user-data-dir=" + home]
        self.process = subprocess.Popen(words, pass_fds=(told, heard), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(told)
        os.close(heard)
        self.asked, self.rest, self.session = 0, b"", None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Page.enable")

    def read(self):
        while b"\0" not in self.rest:
            more = os.read(self.hear, 1 << 20)
            if not more:
                sys.exit("the browser has gone")
            self.rest += more
        said, self.rest = self.rest.split(b"\0", 1)
        return json.loads(said)

    def ask(self, method, **parameters):
        self.asked += 1
        words = {"id": self.asked, "method": method, "params": parameters}
        if self.session:
            words["sessionId"] = self.session
        data = json.dumps(words).encode() + b"\0"
        while data:
            data = data[os.write(self.tell, data):]
        while True:
            said = self.read()
            if said.get("id") == self.asked:
                if "error" in said:
                    sys.exit("%s: %s" % (method, said["error"]["message"]))
                return said["result"]

    def run(self, script):
        done = self.ask("Runtime.evaluate", expression=script, returnByValue=True,
                        awaitPromise=True)
        if "exceptionDetails" in done:
            sys.exit("the page: " + done["exceptionDetails"]["exception"]["description"])
        return done["result"].get("value")

    def open(self, url):
        self.ask("Page.navigate", url=url)
        self.run("new Promise(done => document.readyState === 'complete' ? done() :"
                 " addEventListener('load', () => done()))")

    def show(self, page, width, scheme):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=1000,
                 deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.open("file://" + page)

    def picture(self, width, height):
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        return self.ask("Page.captureScreenshot", format="png", clip=clip,
                        captureBeyondViewport=True)["data"]

    def count(self, picture, wanted):
        return self.run(COUNT.replace("PICTURE", json.dumps(picture))
                        .replace("WANTED", json.dumps(wanted)))

    def close(self):
        self.session = None
        self.ask("Browser.close")
        self.process.wait(timeout=20)


def rgb(text):
    text = text.lstrip("#")
    if len(text) == 3:
        text = "".join(c * 2 for c in text)
    return [int(text[i:i + 2], 16) for i in (0, 2, 4)]


def look(browser, page, width, scheme, colours, keep):
    browser.show(page, width, scheme)
    told = browser.run(PROBE.replace("NAMES", json.dumps([*colours, "--bg"])))
    bad, height = told["bad"], int(told["fabric"][3]) + 40
    picture = browser.picture(width, told["height"] if keep else height)
    if keep:
        name = "%s.%d.%s.png" % (os.path.basename(page), width, scheme)
        with open(os.path.join(keep, name), "wb") as file:
            file.write(base64.b64decode(picture))
    wanted = [{"region": [0, 0, width, height], "rgb": rgb(told["colours"]["--bg"]), "near": 2}]
    for name in colours:
        wanted.append({"region": told["fabric"], "rgb": rgb(told["colours"][name]),
                       "near": 6 if name in FILLS else 48})
    background, *found = browser.count(picture, wanted)
    share = background / (width * height)
    if not 0.05 < share < 0.95:
        bad.append("the background has %.0f %% of the picture" % (100 * share))
    for name, pixels in zip(colours, found):
        if pixels < 60:
            bad.append("no %s (%s) in the drawing of the fabric" % (name, told["colours"][name]))
    return bad


def main():
    words = sys.argv[1:]
    keep = None
    if words[0] == "--keep":
        keep, words = words[1], words[2:]
    chromium, looks, wrong = words[0], words[1:], 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        browser = Browser(chromium, home)
        for page, width, scheme, colours in zip(*[iter(looks)] * 4):
            bad = look(browser, os.path.abspath(page), int(width), scheme, colours.split(","), keep)
            wrong += len(bad)
            for line in bad[:20]:
                print("%s at %s, %s: %s" % (os.path.basename(page), width, scheme, line))
        browser.close()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
