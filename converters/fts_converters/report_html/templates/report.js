"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  root.classList.add("js");

  // Theme: the system's until a choice is made; the choice is kept where the browser lets a file keep one.
  const remembered = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("fts-report-theme");
      localStorage.setItem("fts-report-theme", value);
    } catch { /* a page opened from a file may have no storage */ }
    return null;
  };
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const themeButton = document.querySelector(".theme");
  const label = () => { themeButton.textContent = dark() ? "Light" : "Dark"; };
  const known = remembered();
  if (known === "dark" || known === "light") root.dataset.theme = known;
  label();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  themeButton.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remembered(root.dataset.theme);
    label();
  });

  // Tables that are cut to their first rows, sorted by their headings, filtered by text and precision.
  for (const box of all("[data-table]")) {
    const body = box.querySelector("tbody");
    const rows = all("tr", body).map((row) => ({ row, text: row.textContent.toLowerCase() }));
    const first = Math.min(Number(box.dataset.table), matchMedia("(max-width: 720px)").matches ? 10 : Infinity);
    const more = box.querySelector(".more");
    const count = box.querySelector(".count");
    const search = box.querySelector("input[type=search]");
    const precision = box.querySelector("select[name=precision]");
    const order = box.querySelector("select[name=sort]");
    const headings = all("th[data-key]", box);
    let whole = rows.length <= first;

    const show = () => {
      const text = search ? search.value.trim().toLowerCase() : "";
      const wanted = precision ? precision.value : "";
      const found = rows.filter((r) => r.text.includes(text) && (!wanted || r.row.dataset.precision === wanted));
      rows.forEach((r) => { r.row.hidden = true; });
      found.forEach((r, i) => { r.row.hidden = false; r.row.classList.toggle("cut", !whole && i >= first); });
      const seen = whole ? found.length : Math.min(first, found.length);
      if (count) count.textContent = `${seen} of ${rows.length} shown` + (found.length < rows.length ? `, ${found.length} match` : "");
      if (more) {
        more.hidden = whole || found.length <= first;
        more.textContent = `Show all ${found.length}`;
      }
    };
    const sort = (key, direction) => {
      const column = headings.findIndex((h) => h.dataset.key === key);
      const value = (r) => r.row.dataset[key] ?? r.row.cells[column].textContent;
      const numeric = rows.every((r) => value(r) !== "" && !Number.isNaN(Number(value(r))));
      const collator = new Intl.Collator("en", { numeric: true });
      const compare = (a, b) => numeric ? Number(value(a)) - Number(value(b)) : collator.compare(value(a), value(b));
      rows.sort((a, b) => direction * compare(a, b) || Number(a.row.dataset.number) - Number(b.row.dataset.number));
      rows.forEach((r) => body.append(r.row));
      headings.forEach((h) => {
        if (h.dataset.key === key) h.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
        else h.removeAttribute("aria-sort");
      });
      if (order) order.value = `${key} ${direction}`;
      show();
    };
    headings.forEach((h) => h.querySelector("button").addEventListener("click", () => {
      const now = h.getAttribute("aria-sort");
      const start = h.classList.contains("num") && h.dataset.key !== "number" ? -1 : 1;
      sort(h.dataset.key, now ? (now === "ascending" ? -1 : 1) : start);
    }));
    if (search) search.addEventListener("input", show);
    if (precision) precision.addEventListener("change", show);
    if (order) order.addEventListener("change", () => { const [key, way] = order.value.split(" "); sort(key, Number(way)); });
    if (more) more.addEventListener("click", () => { whole = true; show(); });
    show();
  }

  // Pictures: which sample, which two, and where the divider stands.
  const compare = document.querySelector(".compare");
  if (compare) {
    const stage = compare.querySelector(".stage");
    const [under, over] = all("img", stage);
    const [left, right] = all(".cap", stage);
    const range = stage.querySelector("input");
    const place = () => stage.style.setProperty("--at", `${range.value}%`);
    const draw = () => {
      const sample = compare.querySelector("[name=sample]:checked").value;
      const mode = compare.querySelector("[name=mode]:checked").value;
      const [a, b] = mode === "difference" ? ["fp32", "engine"] : mode.split(" ");
      const picture = (role) => document.querySelector(`[data-sample="${sample}"] [data-role="${role}"]`);
      stage.classList.toggle("difference", mode === "difference");
      for (const [image, cap, role] of [[under, left, a], [over, right, b]]) {
        image.src = picture(role).src;
        image.width = picture(role).width;
        image.height = picture(role).height;
        image.alt = picture(role).alt;
        cap.textContent = picture(role).dataset.caption;
      }
      range.setAttribute("aria-valuetext", `${range.value} % ${left.textContent}, then ${right.textContent}`);
    };
    all("[data-thumb]").forEach((image) => {
      image.src = document.querySelector(`[data-sample="${image.dataset.thumb}"] [data-role=input]`).src;
    });
    range.addEventListener("input", () => { place(); draw(); });
    compare.addEventListener("change", draw);
    place();
    draw();
  }

  for (const button of all(".copy")) {
    button.addEventListener("click", async () => {
      const pre = button.parentElement.querySelector("pre");
      try {
        await navigator.clipboard.writeText(pre.textContent);
        button.textContent = "Copied";
      } catch {
        const range = document.createRange();
        range.selectNodeContents(pre);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        button.textContent = "Selected";
      }
    });
  }
})();
