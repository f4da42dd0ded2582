// Search over all pages, without a network: index.js is loaded when the field is first used, and calls
// found with an entry [title, link, text] for each heading.
const root = document.currentScript.dataset.root;
const field = document.getElementById("search");
const results = document.getElementById("results");
const mostResults = 30;
let entries = null;

// On a narrow screen the menu is closed, so that the page comes first. Elsewhere it shows where the reader is.
const menu = document.querySelector("nav");
if (matchMedia("(max-width: 50rem)").matches) menu.querySelector("details").open = false;
else menu.scrollTop = (menu.querySelector("[aria-current]")?.offsetTop ?? 0) - menu.clientHeight / 2;

window.found = (all) => { entries = all.map(([title, link, text]) => ({ title, link, text, low: title.toLowerCase(), all: (title + " " + text).toLowerCase() })); show(); };

function load() {
  if (document.querySelector("script[data-index]")) return;
  const script = document.createElement("script");
  script.dataset.index = "";
  script.src = root + "index.js";
  document.head.append(script);
}

// begins reports whether a word of the text begins with w.
function begins(text, w) {
  for (let i = text.indexOf(w); i >= 0; i = text.indexOf(w, i + 1)) if (i === 0 || !/[a-z0-9]/.test(text[i - 1])) return true;
  return false;
}

// score is 0 unless the entry has all words. Words of the title count more, and so do beginnings of words.
function score(entry, words) {
  if (!words.every((w) => entry.all.includes(w))) return 0;
  const inTitle = words.filter((w) => begins(entry.low, w)).length;
  const inText = words.filter((w) => begins(entry.all, w)).length;
  const phrase = words.join(" ");
  return 1 + 3 * inTitle + 2 * inText + (entry.all.includes(phrase) ? 2 : 0) + (entry.low.startsWith(phrase) ? 4 : 0);
}

// nearest is for a message that was pasted as a whole, with names of its own: rare words count most.
function nearest(words) {
  const plain = [...new Set(words.map((w) => w.replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, "")).filter((w) => w.length > 2))];
  const weights = plain.map((w) => [w, Math.log(entries.length / (1 + entries.filter((e) => begins(e.all, w)).length))]);
  const all = weights.reduce((sum, [, n]) => sum + n, 0);
  return entries.map((e) => ({ e, s: weights.reduce((sum, [w, n]) => sum + (begins(e.all, w) ? n : 0) + (e.low.includes(w) ? n : 0), 0) }))
    .filter((h) => h.s > all / 3);
}

function excerpt(text, words) {
  const at = Math.max(0, Math.min(...words.map((w) => text.toLowerCase().indexOf(w)).filter((i) => i >= 0), text.length) - 40);
  const line = document.createElement("small");
  let rest = (at > 0 ? "…" : "") + text.slice(at, at + 160) + (text.length > at + 160 ? "…" : "");
  while (rest) {
    const low = rest.toLowerCase();
    const hits = words.map((w) => ({ w, i: low.indexOf(w) })).filter((h) => h.i >= 0).sort((a, b) => a.i - b.i);
    if (!hits.length) break;
    const mark = document.createElement("mark");
    mark.textContent = rest.slice(hits[0].i, hits[0].i + hits[0].w.length);
    line.append(rest.slice(0, hits[0].i), mark);
    rest = rest.slice(hits[0].i + hits[0].w.length);
  }
  line.append(rest);
  return line;
}

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  results.hidden = !entries || !words.length;
  if (results.hidden) return;
  let hits = entries.map((e) => ({ e, s: score(e, words) })).filter((h) => h.s);
  if (!hits.length && words.length > 1) hits = nearest(words);
  hits = hits.sort((a, b) => b.s - a.s).slice(0, mostResults);
  results.replaceChildren(...hits.map(({ e }) => {
    const link = document.createElement("a");
    const title = document.createElement("strong");
    title.textContent = e.title;
    link.href = root + e.link;
    link.append(title, excerpt(e.text, words));
    return link;
  }));
  if (!hits.length) {
    const nothing = document.createElement("p");
    nothing.textContent = "No page has all of these words.";
    results.append(nothing);
  }
}

field.addEventListener("focus", load);
field.addEventListener("input", () => { load(); show(); });
results.addEventListener("click", () => { results.hidden = true; });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field && !event.ctrlKey && !event.metaKey) { field.focus(); event.preventDefault(); }
  if (event.key === "Escape") { results.hidden = true; field.blur(); }
  if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !results.hidden) {
    const links = [field, ...results.querySelectorAll("a")];
    const next = links[links.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)];
    if (next) { next.focus(); event.preventDefault(); }
  }
});
