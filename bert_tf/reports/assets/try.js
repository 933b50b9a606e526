// The page of `bert-tf serve`: chooses a model, sends requests, and shows predictions and failures.

const by = id => document.getElementById(id);
const PATIENCE = 90000, RETRY = 2000, LONGEST_LINK = 4000;
const ORDER = ["question", "context", "text", "text_pair", "choices"];
const TITLES = {question: "Question", context: "Context", text: "Text", text_pair: "Second text",
  choices: "Choices, one on each line"};
// Shown for models whose card has no example.
const GENERAL = {
  text: "Ada Lovelace lived in London.", text_pair: "It rained in London.", question: "Where does the river rise?",
  context: "The river rises in the hills above the village and reaches the sea after ninety miles.",
  choices: ["He walks into the house.", "He boils an egg in the river."],
};
// The model, its version and inputs, and `ask`, in the fragment of a link, which browsers do not send to servers.
const LINKED = new URLSearchParams(location.hash.slice(1));
let chosen = null, needsToken = false;

class Failure extends Error {
  constructor(kind, details) { super(details); this.kind = kind; }
}

// Stored for this tab only.
const token = () => sessionStorage.getItem("token");

async function fetched(path, options = {}) {
  if (token()) options.headers = {Authorization: `Bearer ${token()}`};
  let response, text;
  try {
    response = await fetch(path, {...options, signal: AbortSignal.timeout(PATIENCE)});
    text = await response.text();
  } catch (error) {
    throw new Failure(error.name === "TimeoutError" ? "late" : "offline", "");
  }
  needsToken ||= response.status === 401 || Boolean(token());
  if (response.ok) return text;
  if (response.status === 401) askForToken();
  let details = "";
  try { details = parsed(text).error ?? ""; } catch { throw new Failure("unreadable", response.statusText); }
  throw new Failure(response.status, details);
}

// Shows only the field of the token, because nothing else works without it.
function askForToken() {
  by("access").hidden = false;
  by("wrong-token").hidden = !token();
  by("form").hidden = by("about").hidden = true;
  by("token").focus();
}

async function json(path, options) {
  const text = await fetched(path, options);
  try { return parsed(text); } catch { throw new Failure("unreadable", ""); }
}

function fail(error, next) {
  if (error.kind === 401) return;
  const words = error instanceof Failure ? explained(error.kind, error.message) : explained("broken", String(error));
  const lines = [make("b", words.title), words.details, next ?? words.next].filter(Boolean);
  const parts = lines.flatMap((line, index) => index ? [make("br"), line] : [line]);
  by("answer").className = "error";
  by("answer").replaceChildren(make("p", parts, {class: "verdict warn"}));
  by("latency").textContent = "";
  by("result").hidden = false;
}

const texts = () => Object.fromEntries(chosen.inputs.map(name => [name, by(`input-${name}`).value]));

// Returns the inputs as the model takes them.
function inputs() {
  const values = texts();
  if ("choices" in values) values.choices = values.choices.split("\n").filter(line => line.trim());
  return values;
}

const path = verb => `${modelPath(chosen.name, by("version").value)}:${verb}`;

function changed() {
  by("answer").classList.add("stale");
  by("curl").textContent = curlCommand(location.origin + path("predict"), requestBody(inputs()), needsToken);
  by("curl-note").textContent = needsToken ? `Set the environment variable ${TOKEN_VARIABLE} to the token first.` : "";
}

async function ask(event) {
  event?.preventDefault();
  if (!chosen) return;
  const model = chosen, sent = inputs(), body = requestBody(sent), began = performance.now();
  const link = new URLSearchParams({model: model.name, version: by("version").value, ...texts(), ask: ""}).toString();
  history.replaceState(null, "", link.length <= LONGEST_LINK ? `#${link}` : "#");
  by("ask").disabled = true;
  by("answer").setAttribute("aria-busy", "true");
  try {
    const answer = await json(path("predict"), {method: "POST", body});
    if (model !== chosen) return;
    const taken = Math.round(performance.now() - began);
    by("answer").className = "";
    by("answer").replaceChildren(...model.kind.show(
      namedRow(answer.predictions[0], model.signature), sent, model.labels));
    by("latency").textContent = `${taken} ms with the network`;
    by("result").hidden = false;
  } catch (error) {
    if (model === chosen) fail(error);
  } finally {
    by("answer").removeAttribute("aria-busy");
    by("ask").disabled = !chosen;
  }
}

function field(name, value) {
  const isLine = name === "question", id = `input-${name}`;
  const area = isLine ? make("input", [], {id, type: "text"})
    : make("textarea", [], {id, rows: name === "context" ? 7 : name === "choices" ? 4 : 3});
  area.spellcheck = false;
  area.dir = "auto";
  area.value = value;
  return make("div", [make("label", TITLES[name] ?? name, {for: id}), area], {class: "field"});
}

function fill(values) {
  for (const name of chosen.inputs) by(`input-${name}`).value = written(values[name]);
  changed();
}

const written = value => Array.isArray(value) ? value.join("\n") : value ?? "";

// Returns the example of the card, if it has all inputs, else a general one.
function exampleOf(card, names, isMasked) {
  const own = card.training?.example ?? {};
  if (names.every(name => name in own)) return {own: true, values: own};
  return {own: false, values: {...GENERAL, ...(isMasked ? {text: `Paris is the ${MASK} of France.`} : {})}};
}

function present(name, described, signature) {
  const kind = kindOf(signature), names = Object.keys(signature.inputs);
  names.sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
  const numbers = names.filter(input => signature.inputs[input].dtype !== "DT_STRING");
  const example = exampleOf(described.card, names, "tokens" in signature.outputs);
  const title = kind.title(signature.inputs);
  document.querySelector("h1").textContent = document.title = name;
  by("lead").textContent = title;
  by("card").replaceChildren(cardList(facts(described.card, described.version, title)));
  if (!Object.keys(described.card).length)
    by("card").append(make("p", "This version has no model card (assets.extra/model_card.json).", {class: "note"}));
  if (numbers.length) {
    by("request").hidden = true;
    throw new Failure("numbers", `It takes ${numbers.join(", ")} as numbers.${tokenizerOf(described.card)}`);
  }
  chosen = {name, kind, signature, inputs: names, example, labels: described.card.labels ?? []};
  by("inputs").replaceChildren(...names.map(input => field(input, "")));
  by("origin").textContent = example.own ? "An example from the held-out data of this model." : "A general example.";
  const isLinked = LINKED.get("model") === name && names.some(input => LINKED.has(input));
  fill(isLinked ? Object.fromEntries(names.map(input => [input, LINKED.get(input)])) : example.values);
  by("example").hidden = by("request").hidden = false;
  by("ask").disabled = false;
}

function clear() {
  chosen = null;
  by("ask").disabled = true;
  for (const id of ["result", "request", "example", "raw"]) by(id).hidden = true;
  for (const id of ["inputs", "answer", "card"]) by(id).replaceChildren();
  by("origin").textContent = by("latency").textContent = "";
}

// Shows a model; a model that is being loaded is shown when it is available.
async function choose() {
  const name = by("model").value, version = by("version").value, base = modelPath(name, version);
  const isCurrent = () => by("model").value === name && by("version").value === version;
  clear();
  const cardPath = base.replace(/^\/v1/, "");
  by("to-metadata").href = `${base}/metadata`;
  by("to-status").href = modelPath(name);
  by("to-card").href = cardPath;
  try {
    const [described, about] = await Promise.all([json(cardPath), json(`${base}/metadata`)]);
    if (!isCurrent()) return;
    const signature = about.metadata.signature_def.signature_def.serving_default;
    if (!signature) throw new Failure(400, "The model has no signature `serving_default`.");
    offer(described.versions, version);
    present(name, described, signature);
  } catch (error) {
    if (!isCurrent()) return;
    if (error.kind === 404) await wait(name, version, isCurrent); else fail(error);
  }
}

async function wait(name, version, isCurrent) {
  let states;
  // Without states it is shown as a model without versions.
  try { states = (await json(modelPath(name))).model_version_status; } catch { states = []; }
  if (!isCurrent()) return;
  const isLoading = states.some(state => ["START", "LOADING"].includes(state.state));
  const available = states.filter(state => state.state === "AVAILABLE").map(state => state.version);
  offer([...available, version].filter(Boolean), version);
  fail(new Failure(404, unavailable(states, version)), isLoading ? "This page tries again by itself." : undefined);
  if (isLoading) setTimeout(() => isCurrent() && choose(), RETRY);
}

// Fills the list of versions, the newest first, and selects one; the newest one for "".
function offer(versions, version) {
  const options = versions.map(number => make("option", String(number), {value: String(number)}));
  const newest = make("option", versions.length ? `newest (${versions[0]})` : "newest", {value: ""});
  by("version").replaceChildren(newest, ...options);
  by("version").value = versions.map(String).includes(version) ? version : "";
}

async function copy() {
  const text = by("curl").textContent;
  try {
    // Only on this machine or with TLS.
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren(by("curl"));
    document.execCommand("copy");
  }
  by("copy").textContent = "Copied";
  setTimeout(() => { by("copy").textContent = "Copy"; }, RETRY);
}

// Browsers follow links without the token, so that these texts are shown on the page.
async function read(event) {
  if (!token()) return;
  event.preventDefault();
  by("raw").hidden = false;
  try { by("raw").textContent = await fetched(event.target.getAttribute("href")); } catch (error) {
    by("raw").textContent = [explained(error.kind).title, error.message].join("\n");
  }
}

async function start() {
  let names;
  by("forget").hidden = !token();
  try { names = Object.keys((await json("/models")).models); } catch (error) { return fail(error); }
  by("model").replaceChildren(...names.map(name => make("option", name, {value: name})));
  if (names.includes(LINKED.get("model"))) by("model").value = LINKED.get("model");
  offer([LINKED.get("version")].filter(Boolean), LINKED.get("version"));
  if (!names.length) return fail(new Failure(404, "The server has no models."));
  await choose();
  if (LINKED.has("ask")) await ask();
}

by("form").addEventListener("submit", ask);
by("model").addEventListener("change", () => { offer([], ""); choose(); });
by("version").addEventListener("change", choose);
by("inputs").addEventListener("input", changed);
by("inputs").addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) by("form").requestSubmit();
});
by("example").addEventListener("click", () => fill(chosen.example.values));
by("copy").addEventListener("click", copy);
by("access").addEventListener("submit", event => {
  event.preventDefault();
  const value = by("token").value.trim();
  // Headers hold no other characters.
  by("wrong-token").hidden = /^[!-~]+$/.test(value);
  if (!by("wrong-token").hidden) return;
  sessionStorage.setItem("token", value);
  location.reload();
});
by("forget").addEventListener("click", () => { sessionStorage.removeItem("token"); location.reload(); });
for (const link of document.querySelectorAll("a[data-text]")) link.addEventListener("click", read);
addEventListener("hashchange", () => location.reload());
start();
