"use strict";
// Requests, responses and texts. Nothing here uses the page, so that the tests run it without a browser.

const MASK = "[MASK]";
const TOKEN_VARIABLE = "BERT_TF_SERVE_TOKEN";

// Returns a word of a POSIX shell that stands for any text without NUL.
const shellWord = text => /^[\w@%+=:,.\/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

// Returns the path of a model, or of one of its versions.
const modelPath = (name, version) =>
  `/v1/models/${encodeURIComponent(name)}${version ? `/versions/${version}` : ""}`;

// Returns the body of a predict request for one row; a single input is written without its name.
function requestBody(inputs) {
  const values = Object.values(inputs);
  return JSON.stringify({instances: [values.length === 1 ? values[0] : inputs]});
}

// Returns the request as a command of a shell. The token is read from an environment variable, never shown.
const curlCommand = (url, body, needsToken) => [
  `curl ${shellWord(url)}`,
  "-H 'Content-Type: application/json'",
  ...(needsToken ? [`-H "Authorization: Bearer $${TOKEN_VARIABLE}"`] : []),
  `-d ${shellWord(body)}`,
].join(" \\\n  ");

// Parses the server's JSON, in which numbers may be NaN or infinite. These become null.
const parsed = text =>
  JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|NaN|-?Infinity/g, match => match[0] === '"' ? match : "null"));

// Splits a text at the ends of spans, which count code points from 0 and may overlap. Returns pieces with the numbers
// of the spans that cover them, the outer ones first, and those that end with them.
function pieces(text, spans) {
  const points = Array.from(text);
  const inside = place => Math.max(0, Math.min(points.length, place));
  const order = spans.map((span, number) => ({start: inside(span.start), end: inside(span.end), number}))
    .filter(span => span.start < span.end)
    .sort((a, b) => a.start - b.start || b.end - a.end);
  const cuts = [...new Set([0, points.length, ...order.flatMap(span => [span.start, span.end])])].sort((a, b) => a - b);
  return cuts.slice(1).map((end, index) => {
    const covering = order.filter(span => span.start <= cuts[index] && span.end >= end);
    return {
      text: points.slice(cuts[index], end).join(""),
      spans: covering.map(span => span.number),
      ending: covering.filter(span => span.end === end).map(span => span.number),
    };
  });
}

// Returns values with their names, the largest first; values that are not numbers come last.
const ranked = (values, names) => values
  .map((value, index) => ({value, name: names[index] ?? `class ${index}`}))
  .sort((a, b) => (b.value ?? -1) - (a.value ?? -1));

// Formats a share as reports do: `0%`, `<0.1%`, `12.3%`.
function percent(value) {
  if (value === null || value === undefined) return "not defined";
  if (value > 0 && value < 0.0005) return "<0.1%";
  return value === 0 ? "0%" : `${(100 * value).toFixed(1)}%`;
}

// Formats a number with four digits.
function figure(value) {
  if (value === null || value === undefined) return "not defined";
  if (Number.isInteger(value) && Math.abs(value) > 1) return value.toLocaleString("en");
  return Math.abs(value) <= 1 ? value.toFixed(4) : value.toLocaleString("en", {maximumFractionDigits: 2});
}

// Words for failed requests by HTTP status: the title, and the next step.
const FAILURES = {
  400: ["The server rejected the input.", "Change the input, then predict again."],
  numbers: ["This page sends texts, and the model takes none.", "Send numbers, as in Inputs and outputs."],
  401: ["The server needs its access token.", "Enter the token above."],
  403: ["The server does not allow this address.", "Start it with --allowed_hosts and the name in the address bar."],
  404: ["This model or version is not available.", "Choose another one, or look at the state of the versions."],
  408: ["The request arrived too slowly.", "Check the connection, then predict again."],
  413: ["The input is too large.", "Shorten it, or start the server with a larger --max_request_bytes."],
  429: ["The server has too many waiting requests.", "Wait some seconds, then predict again."],
  500: ["The model failed on this input.", "The log of the server has the details."],
  503: ["The server is starting, stopping or busy.", "Wait some seconds, then predict again."],
  504: ["The prediction took longer than the server allows.", "Shorten the input, or try again when it is less busy."],
  offline: ["The server does not respond.", "Check that it is running (bert-tf serve), then predict again."],
  late: ["The server did not respond in time.", "Shorten the input, or try again when it is less busy."],
  unreadable: ["The response is not from this server.", "A proxy may have sent it. Check the address of this page."],
  broken: ["This page failed.", "Reload it."],
};

// Returns title, details and next step of a failed request; `kind` is a status, or a word of FAILURES.
function explained(kind, details = "") {
  const known = FAILURES[kind] ?? (kind >= 500 ? FAILURES[500] : FAILURES[400]);
  return {title: known[0], details, next: known[1]};
}

// Returns a sentence on a version that is not available, or on a model without one, from the states of its versions.
function unavailable(states, version) {
  if (version && !states.some(state => state.version === version)) return `There is no version ${version}.`;
  if (version) states = states.filter(state => state.version === version);
  const failed = states.find(state => state.status.error_message);
  if (failed) return `Version ${failed.version} could not be loaded: ${failed.status.error_message}`;
  const [newest] = states;
  if (newest && ["START", "LOADING"].includes(newest.state)) return `Version ${newest.version} is being loaded.`;
  return newest ? `Version ${newest.version} is in the state ${newest.state}.` : "It has no versions.";
}
