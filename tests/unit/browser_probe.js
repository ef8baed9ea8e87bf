// Measures the page it stands in and leaves what it found as JSON in a <pre> of the page around it. `number` is its own.
const width = document.documentElement.clientWidth;
const inside = (element, selector) => element.closest(selector) !== null;
const name = (element) => `${element.tagName.toLowerCase()}.${element.getAttribute("class") || ""}`;
const all = [...document.body.querySelectorAll("*")];
const figures = [...document.querySelectorAll("figure svg")];
const found = {
  width,
  scrollWidth: document.documentElement.scrollWidth,
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
  background: getComputedStyle(document.body).backgroundColor,
  color: getComputedStyle(document.body).color,
  ink: [...new Set([...document.querySelectorAll("figure svg text")].map((text) => getComputedStyle(text).fill))],
  requests: performance.getEntriesByType("resource").map((entry) => entry.name),
  // Elements that reach past the edge, those inside a table that scrolls and inside a figure excepted.
  wide: all
    .filter((element) => !inside(element, ".scroll, svg, .marks, script"))
    .filter((element) => element.getBoundingClientRect().right > width + 0.5)
    .map(name),
  scrolling: [...document.querySelectorAll(".scroll")].filter((box) => box.scrollWidth > box.clientWidth).length,
  figures: figures.length,
  letters: Math.min(...figures.map((svg) => (11 * svg.getBoundingClientRect().width) / svg.viewBox.baseVal.width)),
  // Words of a figure that its frame cuts off.
  cut: figures.flatMap((svg) => {
    const frame = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("text")]
      .filter((text) => {
        const box = text.getBoundingClientRect();
        return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
      })
      .map((text) => text.textContent);
  }),
};
const note = parent.document.createElement("pre");
note.className = `probe-${number}`;
note.textContent = JSON.stringify(found);
parent.document.body.append(note);
