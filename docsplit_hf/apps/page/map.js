// The map: points on a canvas. Texts never come here; names of labels are written as text.
const canvas = element.querySelector("canvas");
const legend = element.querySelector("ul");
const spoken = element.querySelector("[role=status]");
const COLORS = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#44bb99", "#bbcc33", "#99ddff"];
const GRAY = "#9ca3af";
const SHAPES = ["circle", "square", "diamond", "triangle"]; // after ten labels the colors begin again, in another shape
const MARGIN = 16;
let points = [], labels = [], current = -1;

const color = (label) => (label < 0 ? GRAY : COLORS[label % COLORS.length]);
const shape = (label) => (label < 0 ? "circle" : SHAPES[Math.floor(label / COLORS.length) % SHAPES.length]);
const name = (label) => (label < 0 ? "no label" : labels[label]);
const place = (point) => [
  MARGIN + point[0] * (canvas.clientWidth - 2 * MARGIN),
  MARGIN + point[1] * (canvas.clientHeight - 2 * MARGIN),
];

function mark(context, x, y, label, size) {
  context.fillStyle = color(label);
  context.globalAlpha = label < 0 ? 0.6 : 0.95;
  context.beginPath();
  if (shape(label) === "circle") context.arc(x, y, size, 0, 7);
  else if (shape(label) === "square") context.rect(x - size, y - size, 2 * size, 2 * size);
  else {
    context.moveTo(x, y - 1.3 * size);
    context.lineTo(x + 1.3 * size, shape(label) === "diamond" ? y : y + size);
    if (shape(label) === "diamond") context.lineTo(x, y + 1.3 * size);
    context.lineTo(x - 1.3 * size, shape(label) === "diamond" ? y : y + size);
    context.closePath();
  }
  context.fill();
}

function draw() {
  const scale = window.devicePixelRatio || 1;
  canvas.width = canvas.clientWidth * scale;
  canvas.height = canvas.clientHeight * scale;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const size = points.length > 500 ? 3 : points.length > 150 ? 4 : 6;
  for (const labeled of [false, true])
    for (const point of points)
      if (point[2] >= 0 === labeled) mark(context, ...place(point), point[2], labeled ? size : size - 1);
  if (current >= 0) {
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeStyle = getComputedStyle(canvas).color;
    context.beginPath();
    context.arc(...place(points[current]), size + 5, 0, 7);
    context.stroke();
  }
}

function write_legend() {
  const entries = [...labels.keys()];
  if (points.some((point) => point[2] < 0)) entries.push(-1);
  legend.replaceChildren(
    ...entries.map((label) => {
      const entry = document.createElement("li"), sign = document.createElement("canvas");
      sign.width = sign.height = 14;
      mark(sign.getContext("2d"), 7, 7, label, 5);
      entry.append(sign, document.createTextNode(name(label)));
      return entry;
    }),
  );
}

function go_to(number) {
  if (number < 0) return;
  current = number;
  spoken.textContent = `Point ${number + 1} of ${points.length}, ${name(points[number][2])}.`;
  draw();
}

function nearest(x, y, within) {
  let best = -1, least = within * within;
  points.forEach((point, number) => {
    const [px, py] = place(point), distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance < least) [best, least] = [number, distance];
  });
  return best;
}

function next(dx, dy) {
  if (current < 0) return 0;
  const [x, y] = place(points[current]);
  let best = -1, least = Infinity;
  points.forEach((point, number) => {
    const [px, py] = place(point), along = (px - x) * dx + (py - y) * dy;
    const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
    if (number !== current && along > 0 && along + 2 * aside < least) [best, least] = [number, along + 2 * aside];
  });
  return best;
}

const open = (number) => number >= 0 && trigger("select", { id: points[number][3] });
const here = (event) => nearest(event.offsetX, event.offsetY, 24);
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

canvas.addEventListener("click", (event) => { go_to(here(event)); if (here(event) >= 0) open(current); });
canvas.addEventListener("mousemove", (event) => { canvas.style.cursor = here(event) >= 0 ? "pointer" : "default"; });
canvas.addEventListener("focus", () => { if (current < 0 && points.length && canvas.matches(":focus-visible")) go_to(0); });
canvas.addEventListener("keydown", (event) => {
  if (ARROWS[event.key]) go_to(next(...ARROWS[event.key]));
  else if (event.key === "Enter" || event.key === " ") open(current);
  else return;
  event.preventDefault();
});
new ResizeObserver(draw).observe(canvas);

function show() {
  const value = props.value || {};
  const before = current >= 0 && points[current] ? points[current][3] : null;
  points = value.points || [];
  labels = value.labels || [];
  current = points.findIndex((point) => point[3] === before);
  write_legend();
  draw();
}
watch("value", show);
show();
