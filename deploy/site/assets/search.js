// Search over the prebuilt index, and the switch of the theme. No library, nothing from elsewhere.
"use strict";

// Return the pages that have every word; the last word may be the beginning of one. Titles count more than headings,
// headings more than text.
function find(index, query) {
  const words = query.toLowerCase().match(/[a-z0-9]+(?:[-_.][a-z0-9]+)*/g) || [];
  if (!words.length) return [];
  let left = null;
  words.forEach((word, place) => {
    const pages = pagesWith(index, word, place === words.length - 1);
    left = left === null ? pages : new Set([...left].filter((page) => pages.has(page)));
  });
  const ranked = [...left].map((number) => rank(index.pages[number], words));
  return ranked.sort((a, b) => b.score - a.score || a.title.localeCompare(b.title)).slice(0, 20);
}

function pagesWith(index, word, isLast) {
  const pages = new Set();
  const add = (differences) => {
    let number = 0;
    for (const difference of differences) pages.add((number += difference));
  };
  if (Object.hasOwn(index.words, word)) add(index.words[word]);
  if (isLast) for (const known in index.words) if (known.startsWith(word)) add(index.words[known]);
  return pages;
}

function rank([target, title, section, headings], words) {
  const has = (text) => words.filter((word) => text.toLowerCase().includes(word)).length;
  let best = null;
  for (const [text, anchor] of headings) {
    const count = has(text);
    if (count && (!best || count > best.count)) best = { text, anchor, count };
  }
  const score = 10 * has(title) + (best ? 4 * best.count : 0) + (section === "Decisions" ? -2 : 0);
  const href = best && !has(title) ? `${target}#${best.anchor}` : target;
  return { href, title, section, heading: best ? best.text : "", score };
}

function show(box, results, status, base) {
  box.replaceChildren(
    ...results.map((each) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = base + each.href;
      link.textContent = each.title;
      const about = document.createElement("span");
      about.textContent = each.heading ? `${each.section}: ${each.heading}` : each.section;
      item.append(link, about);
      return item;
    }),
  );
  const count = results.length;
  status.textContent = count ? `${count === 20 ? "The best 20" : count} page${count === 1 ? "" : "s"}` : "No page has all of these words";
}

function load(base, done) {
  if (window.fairleadIndex) return done(window.fairleadIndex);
  const script = document.createElement("script");
  script.src = `${base}assets/index.js`;
  script.addEventListener("load", () => done(window.fairleadIndex));
  document.head.append(script);
}

function connectSearch() {
  const field = document.getElementById("search");
  const box = document.getElementById("results");
  const status = document.getElementById("found");
  const base = document.documentElement.dataset.base;
  const run = () => {
    const query = field.value.trim();
    document.body.classList.toggle("searching", query !== "");
    if (query === "") {
      box.replaceChildren();
      status.textContent = "";
      return;
    }
    load(base, (index) => show(box, find(index, query), status, base));
  };
  field.addEventListener("input", run);
  field.form.addEventListener("submit", (event) => {
    event.preventDefault();
    const first = box.querySelector("a");
    if (first) first.click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      field.focus();
    } else if (event.key === "Escape" && field.value) {
      field.value = "";
      run();
    }
  });
}

// The theme follows the system until the button chooses one.
function connectTheme() {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use the ${dark() ? "light" : "dark"} theme`);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try {
      localStorage.setItem("fairlead-theme", root.dataset.theme);
    } catch {} // storage may be forbidden: the choice then lasts for this page
    label();
  });
  label();
}

if (typeof module !== "undefined") {
  module.exports = { find };
} else {
  try {
    const chosen = localStorage.getItem("fairlead-theme");
    if (chosen) document.documentElement.dataset.theme = chosen;
  } catch {} // storage may be forbidden
  document.addEventListener("DOMContentLoaded", () => {
    connectTheme();
    connectSearch();
    // On a phone the page comes first.
    if (matchMedia("(max-width: 60rem)").matches) document.getElementById("pages").open = false;
  });
}
