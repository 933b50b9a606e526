// Elements that show predictions and model cards.

// A row without a longer name has its bar beside the name, otherwise below it.
const LONG_NAME = 28, FIRST_BARS = 12, TYPES = 8;

function make(tag, content = [], attributes = {}) {
  const element = document.createElement(tag);
  element.append(...[content].flat());
  for (const [name, value] of Object.entries(attributes))
    // The content security policy forbids style attributes in the markup, but not this.
    if (name === "style") element.style.cssText = value; else element.setAttribute(name, value);
  return element;
}

const verdict = text => make("p", text, {class: "verdict"});

// Writes a word piece that continues a word as reports do.
const plainPiece = piece => piece.replace(/^##/, "\u00b7");

// Bars of shares, the largest first; more than FIRST_BARS are folded.
function bars(values, names, shownName = name => name) {
  const rows = ranked(values, names), isLong = rows.some(row => row.name.length > LONG_NAME);
  const line = (row, index) => make("li", [
    make("bdi", shownName(row.name), {class: "of"}),
    ...(isLong ? [make("span", percent(row.value), {class: "value"})] : []),
    make("span", make("i", [], {style: `width:${100 * (row.value ?? 0)}%`}), {class: "track", "aria-hidden": "true"}),
    ...(isLong ? [] : [make("span", percent(row.value), {class: "value"})]),
  ], index === 0 ? {class: "best"} : {});
  const lines = rows.map(line), kind = {class: isLong ? "bars long" : "bars", role: "list"};
  const list = make("ol", lines.slice(0, FIRST_BARS), kind);
  if (lines.length <= FIRST_BARS) return [list];
  const more = lines.slice(FIRST_BARS);
  return [list, make("details", [make("summary", `${more.length} more`), make("ol", more, kind)])];
}

// A text with spans: objects of `start`, `end` and what `wrap` needs for the element around a piece.
function spanned(text, spans, wrap) {
  const parts = pieces(text, spans).map(piece => piece.spans.reduceRight(
    (inner, number) => wrap(inner, spans[number], piece.ending.includes(number)), piece.text));
  return make("p", parts, {class: "read", dir: "auto"});
}

function entity(inner, span, isLast) {
  const tag = isLast ? [make("span", span.name, {class: "tag"})] : [];
  return make("span", [inner, ...tag], {class: `entity correct t${span.color}`, title: `${span.name} ${span.score}`});
}

const answerSpan = inner => make("mark", inner, {class: "answer-span"});

function vector(name, values) {
  const largest = Math.max(...values.map(Math.abs)) || 1, length = Math.hypot(...values);
  const cells = values.map(value => make("i", [], {class: value < 0 ? "down" : "up",
    style: `opacity:${Math.abs(value) / largest}`}));
  return [
    make("h3", name), make("p", `${figure(values.length)} values, Euclidean length ${figure(length)}`, {class: "note"}),
    make("div", cells, {class: "vector", role: "img", "aria-label": `${values.length} values as colours`}),
    make("details", [make("summary", "Values"), make("pre", JSON.stringify(values))]),
  ];
}

function table(names, rows) {
  const head = make("tr", names.map(name => make("th", name, {scope: "col"})));
  const cells = row => row.map((cell, column) =>
    make("td", make("bdi", cell), {"data-name": names[column], class: column ? "n" : ""}));
  return make("table", [make("thead", head), make("tbody", rows.map(row => make("tr", cells(row))))], {class: "found"});
}

// Title of a kind of model, and elements for a row of its predictions, by an output that only this kind has.
const KINDS = {
  tokens: {title: () => "Masked words", show: (row, sent) => {
    const masks = row.tokens.filter(tokens => tokens[0]);
    if (!masks.length) return [verdict(`There is no ${MASK} in the text. Replace a word by ${MASK}.`)];
    const [first, ...rest] = sent.text.split(MASK);
    const filled = rest.flatMap((after, index) =>
      [make("mark", plainPiece(masks[index]?.[0] ?? MASK), {class: "filled"}), after]);
    const title = index => masks.length > 1 ? `${MASK} ${index + 1}` : "Most probable pieces";
    return [make("p", [first, ...filled], {class: "read", dir: "auto"}),
      ...masks.flatMap((tokens, index) => [make("h3", title(index)), ...bars(row.scores[index], tokens, plainPiece)])];
  }},
  answer: {title: () => "Question answering", show: (row, sent) => {
    const found = row.start < 0 ? [] : [{start: row.start, end: row.end}];
    const kept = (row.n_best_answers ?? [row.answer]).map((name, index) =>
      ({name: name || "(no answer)", value: (row.n_best_probabilities ?? [row.probability])[index]}))
      .filter(one => one.value > 0);
    return [...(found.length ? [] : [verdict("The context has no answer to this question.")]),
      spanned(sent.context, found, answerSpan), make("h3", "Best answers"),
      ...bars(kept.map(one => one.value), kept.map(one => one.name))];
  }},
  entities: {title: () => "Named entities", show: (row, sent) => {
    const spans = row.entities.map((text, index) => ({text, start: row.starts[index], end: row.ends[index],
      name: row.types[index], score: percent(row.scores[index])})).filter(span => span.start >= 0);
    const types = [...new Set(spans.map(span => span.name))].sort();
    for (const span of spans) span.color = types.indexOf(span.name) % TYPES;
    if (!spans.length) return [verdict("No entities."), spanned(sent.text, [], entity)];
    return [spanned(sent.text, spans, entity),
      table(["Entity", "Type", "Probability"], spans.map(span => [span.text, span.name, span.score]))];
  }},
  choice: {title: () => "Multiple choice", show: (row, sent) => bars(row.probabilities, sent.choices)},
  probabilities: {title: inputs => inputs.text_pair ? "Classification of text pairs" : "Text classification",
    show: (row, sent, labels) => bars(row.probabilities, labels)},
  number: {title: inputs => inputs.text_pair ? "Regression on text pairs" : "Regression",
    show: row => [make("p", figure(row.number), {class: "big"})]},
  mean_output: {title: () => "Text vectors",
    show: row => Object.entries(row).flatMap(([name, values]) => vector(name, values.flat()))},
};

// Returns the kind of a signature; its outputs decide.
const kindOf = signature => KINDS[Object.keys(KINDS).find(name => name in signature.outputs)]
  ?? {title: () => "Model", show: row => [make("pre", JSON.stringify(row, null, 1))]};

// Returns a row of predictions as an object; the server writes a single output without its name.
function namedRow(row, signature) {
  const names = Object.keys(signature.outputs);
  return names.length === 1 ? {[names[0]]: row} : row;
}

const languageName = code => {
  try { return new Intl.DisplayNames(["en"], {type: "language"}).of(code); } catch { return code; }
};

const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

const isInGraph = card => card.tokenizer?.in_graph ?? true;

// Returns a sentence on the tokenizer of a model that takes no texts.
const tokenizerOf = card => isInGraph(card) ? "" : ` Its tokenizer is the file ${card.tokenizer.file} of the version.`;

// Returns terms and values of a model card; unknown facts are left out.
function facts(card, version, title) {
  const {model = {}, training = {}, evaluated = {}} = card, found = [];
  const add = (term, value, more = "") => value && found.push([term, value, more]);
  add("Task", title, card.task ?? "");
  add("Version", String(version), card.exported ? `exported ${card.exported.slice(0, 16).replace("T", " ")} UTC` : "");
  add("Encoder", model.num_layers && `${counted(model.num_layers, "layer")} of ${model.hidden_dim}`,
    [model.body !== "bert" && model.body && `body ${model.body}`, model.num_heads && counted(model.num_heads, "head"), card.parameters && counted(card.parameters, "parameter"),
      card.precision].filter(Boolean).join(", "));
  add("Text", card.lowercase === undefined ? "" : card.lowercase ? "uncased" : "cased",
    [training.languages?.map(languageName).join(", "),
      card.max_sequence_length && `up to ${card.max_sequence_length} tokens`,
      model.vocabulary_size && counted(model.vocabulary_size, isInGraph(card) ? "word piece" : "token of byte-level BPE")].filter(Boolean).join(", "));
  add("Labels", card.labels && (card.labels.length > 8 ? String(card.labels.length) : card.labels.join(", ")));
  add("Training data", training.data_name ?? (training.train_examples ? "not named" : ""),
    training.train_examples ? counted(training.train_examples, "example") : "");
  const held = evaluated.examples ?? training.dev_examples;
  const metrics = Object.entries(card.metrics ?? {}).slice(0, 6).map(([name, value]) =>
    make("div", [make("dt", name), make("dd", figure(value))]));
  if (metrics.length)
    add("Metrics", [make("dl", metrics, {class: "metrics"})],
      `${evaluated.data_name ?? "held-out data"}${held ? `, ${counted(held, "example")}` : ""}`);
  add("Software", card.versions && `bert-tf ${card.versions["bert-tf"]}`,
    card.versions ? `TensorFlow ${card.versions.tensorflow}, Keras ${card.versions.keras}` : "");
  return found;
}

function cardList(found) {
  const rows = found.flatMap(([term, value, more]) => [make("dt", term),
    make("dd", [...[value].flat(), ...(more ? [make("span", more, {class: "under"})] : [])])]);
  return make("dl", rows, {class: "facts"});
}
