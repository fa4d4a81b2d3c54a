"use strict";

const filters = document.querySelector(".filters");
const cards = [...document.querySelectorAll(".finding")];

/** Shows the findings that each filter lets through, and says how many they are. */
function filter() {
  const asked = [...new FormData(filters)].filter(([, value]) => value !== "");
  for (const card of cards) card.hidden = asked.some(([name, value]) => card.dataset[name] !== value);
  const shown = cards.filter((card) => !card.hidden).length;
  filters.querySelector(".shown").textContent = `${shown} of ${cards.length} shown`;
  drawAll();
}

/** Draws a card's trail: from each step's number to the next one's, down to the finding. */
function draw(card) {
  card.querySelector("svg.trail")?.remove();
  const stops = [...card.querySelectorAll("[data-step]")].sort((a, b) => a.dataset.step - b.dataset.step);
  if (card.hidden || stops.length < 2) return;
  const frame = card.getBoundingClientRect();
  const points = stops.map((stop) => {
    const box = stop.getBoundingClientRect();
    return [box.left - frame.left - 2, box.top - frame.top + box.height / 2];
  });
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", "trail");
  svg.setAttribute("aria-hidden", "true");
  for (let at = 1; at < points.length; at++) {
    const [[x1, y1], [x2, y2]] = [points[at - 1], points[at]];
    const bend = Math.min(34, 8 + Math.abs(y2 - y1) / 12);
    const path = document.createElementNS(space, "path");
    path.setAttribute("d", `M ${x1} ${y1} C ${x1 - bend} ${y1}, ${x2 - bend} ${y2}, ${x2} ${y2}`);
    svg.append(path);
  }
  card.append(svg);
}

function drawAll() {
  cards.forEach(draw);
}

filters.addEventListener("input", filter);
filters.addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("resize", drawAll);
filter();
