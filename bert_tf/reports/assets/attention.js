const data = JSON.parse(document.getElementById("data").textContent);
const { tokens, special, segments, layers, heads } = data;
const n = tokens.length, size = n * n, MEAN = -1;
const bytes = Uint8Array.from(atob(data.weights), character => character.charCodeAt(0));
const at = id => document.getElementById(id);
const made = (tag, parent, attributes = {}, text = "") => {
  const found = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.textContent = text;
  parent.append(found);
  return found;
};
const percent = share => (100 * share).toFixed(1) + "%";
const word = place => tokens[place].replace(/^##/, "\u00b7");
const kind = place => (segments[place] ? "b" : "a") + (special[place] ? " special" : "");
const state = { layer: 0, head: 0, token: null, side: "from", kept: false };

function weightsOf(layer, head) {
  const sum = new Float32Array(size), some = head === MEAN ? [...Array(heads).keys()] : [head];
  for (const one of some) {
    const begin = (layer * heads + one) * size;
    for (let place = 0; place < size; place++) sum[place] += (bytes[begin + place] / 255) ** 2 / some.length;
  }
  return sum;
}

function paint(canvas, weights) {
  canvas.width = canvas.height = n;
  const context = canvas.getContext("2d"), image = context.createImageData(n, n);
  const [red, green, blue] = getComputedStyle(canvas).color.match(/[\d.]+/g).map(Number);
  for (let place = 0; place < size; place++) {
    image.data.set([red, green, blue, 255 * Math.sqrt(weights[place])], 4 * place);
  }
  context.putImageData(image, 0, 0);
}

const buttons = new Map();
function drawHeads() {
  const grid = at("heads");
  grid.style.gridTemplateColumns = `max-content repeat(${heads}, minmax(0, 80px))`;
  made("span", grid);
  for (let head = 0; head < heads; head++) made("span", grid, {}, head + 1);
  for (let layer = 0; layer < layers; layer++) {
    for (let head = MEAN; head < heads; head++) {
      const name = head === MEAN ? `Layer ${layer + 1}, mean of its heads` : `Layer ${layer + 1}, head ${head + 1}`;
      const button = made("button", grid, { "aria-label": name, title: name, "aria-pressed": "false" });
      if (head === MEAN) {
        button.className = "layer";
        button.textContent = layer + 1;
      } else made("canvas", button);
      button.addEventListener("click", () => choose(layer, head));
      buttons.set(layer + " " + head, button);
    }
  }
  grid.addEventListener("keydown", event => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const layer = Math.min(layers - 1, Math.max(0, state.layer + step[0]));
    const head = Math.min(heads - 1, Math.max(MEAN, state.head + step[1]));
    choose(layer, head);
    buttons.get(layer + " " + head).focus();
  });
}

function paintHeads() {
  for (const [key, button] of buttons) {
    const [layer, head] = key.split(" ").map(Number);
    if (head !== MEAN) paint(button.firstChild, weightsOf(layer, head));
  }
}

let weights, parts = [];
function choose(layer, head) {
  buttons.get(state.layer + " " + state.head).setAttribute("aria-pressed", "false");
  Object.assign(state, { layer, head });
  const button = buttons.get(layer + " " + head);
  button.setAttribute("aria-pressed", "true");
  at("chosen").textContent = button.title;
  weights = weightsOf(layer, head);
  paint(at("matrix"), weights);
  drawHabits();
  drawLines();
  look();
}

function drawHabits() {
  const habits = { "itself": 0, "previous token": 0, "next token": 0, "[CLS]": 0, "[SEP]": 0, "others": 0 };
  for (let from = 0; from < n; from++) for (let to = 0; to < n; to++) {
    const name = to === from ? "itself" : ["[CLS]", "[SEP]"].includes(tokens[to]) ? tokens[to]
      : to === from - 1 ? "previous token" : to === from + 1 ? "next token" : "others";
    habits[name] += weights[from * n + to] / n;
  }
  at("habits").replaceChildren();
  for (const [name, share] of Object.entries(habits)) {
    made("dt", at("habits"), {}, name);
    const meter = made("span", made("dd", at("habits")), { class: "meter" });
    made("i", meter, { style: `width:${percent(share)}` });
    made("dd", at("habits"), { class: "n" }, percent(share));
  }
}

const STEP = 22, LEFT = 150, RIGHT = 290, WIDE = 440;
function drawLines() {
  at("lines").replaceChildren();
  const svg = made("svg:svg", at("lines"), { viewBox: `0 0 ${WIDE} ${STEP * n}`, role: "img",
    "aria-label": "Weights as lines between tokens" });
  parts = [];
  for (let from = 0; from < n; from++) for (let to = 0; to < n; to++) {
    const share = weights[from * n + to];
    if (share < 0.01) continue;
    const y = STEP * (from + 0.5), z = STEP * (to + 0.5), middle = (LEFT + RIGHT) / 2;
    const line = made("svg:path", svg, { d: `M${LEFT},${y}C${middle},${y} ${middle},${z} ${RIGHT},${z}`,
      "stroke-width": 0.7 + 3.3 * share, class: kind(from) });
    parts.push({ line, from, to, share });
  }
  for (const side of ["from", "to"]) tokens.forEach((_, place) => {
    const text = made("svg:text", svg, { x: side === "from" ? LEFT - 8 : RIGHT + 8, y: STEP * (place + 0.5) + 4,
      "text-anchor": side === "from" ? "end" : "start", class: kind(place) }, word(place));
    parts.push({ text, place, side });
    follow(text, place, side);
  });
}

function follow(target, token, side) {
  target.addEventListener("pointerenter", event => {
    if (event.pointerType === "mouse" && !state.kept) look(token, side);
  });
  target.addEventListener("pointerleave", event => {
    if (event.pointerType === "mouse" && !state.kept) look(null);
  });
  target.addEventListener("click", () => {
    const again = state.kept && state.token === token && state.side === side;
    state.kept = !again;
    look(again ? null : token, side);
  });
}

const shareOf = place => state.token === null ? null
  : state.side === "from" ? weights[state.token * n + place] : weights[place * n + state.token];

function look(token = state.token, side = state.side) {
  Object.assign(state, { token, side });
  const received = tokens.map((_, to) => tokens.reduce((sum, _, from) => sum + weights[from * n + to], 0) / n);
  const shares = tokens.map((_, place) => token === null ? received[place] : shareOf(place));
  const most = Math.max(...shares, 1e-9);
  [...at("text").children].forEach((button, place) => {
    const shade = Math.sqrt(shares[place] / most);
    button.style.setProperty("--w", shade.toFixed(3));
    button.classList.toggle("strong", shade > 0.75);
    button.classList.toggle("from", place === token);
    button.title = percent(shares[place]);
  });
  const order = [...shares.keys()].sort((a, b) => shares[b] - shares[a]).slice(0, 4);
  const top = order.map(place => `${word(place)} ${percent(shares[place])}`).join(", ");
  at("said").textContent = token === null
    ? `Shading: mean attention that each token receives: ${top}. Hover over a token, or tap it.`
    : side === "from" ? `${word(token)} attends to ${top}.` : `${word(token)} is attended to by ${top}.`;
  for (const part of parts) {
    if (part.line) {
      const shown = token === null ? part.share > 0.03 : part[side] === token;
      part.line.setAttribute("stroke-opacity", shown ? 0.1 + 0.9 * Math.sqrt(part.share) : 0);
    } else {
      const chosen = token !== null && part.side === side && part.place === token;
      const other = token !== null && part.side !== side;
      part.text.classList.toggle("on", chosen);
      part.text.classList.toggle("off", token !== null && !chosen && (!other || shares[part.place] < 0.03));
      const number = other && shares[part.place] >= 0.03 ? percent(shares[part.place]) : "";
      part.text.textContent = part.side === "from" ? `${number} ${word(part.place)}` : `${word(part.place)} ${number}`;
    }
  }
}

at("matrix").addEventListener("pointermove", event => {
  const box = event.target.getBoundingClientRect();
  const place = (offset, length) => Math.min(n - 1, Math.max(0, Math.floor(n * offset / length)));
  const from = place(event.clientY - box.top, box.height), to = place(event.clientX - box.left, box.width);
  at("cell").textContent = `${word(from)} \u2192 ${word(to)}: ${percent(weights[from * n + to])}`;
});
tokens.forEach((_, place) => {
  const joined = tokens[place].startsWith("##") ? "" : " ";
  at("text").append(joined);
  follow(made("button", at("text"), { class: kind(place), type: "button" }, word(place)), place, "from");
});
drawHeads();
paintHeads();
choose(0, 0);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  paintHeads();
  paint(at("matrix"), weights);
});
