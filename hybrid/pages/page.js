"use strict";
(() => {
  const panel = document.getElementById("panel");
  const text = document.getElementById("text");
  const tokens = Array.from(text.querySelectorAll(".t"));
  let at = -1;

  const show = (place) => {
    if (place < 0 || place >= tokens.length) return;
    if (at >= 0) tokens[at].classList.remove("on");
    at = place;
    const token = tokens[at];
    token.classList.add("on");
    const spot = document.getElementById("spot-" + token.dataset.spot);
    if (spot) {
      panel.replaceChildren(spot.content.cloneNode(true));
    } else {
      const words = document.createElement("p");
      words.textContent = token.dataset.n + " tokens allowed; what else there is to say was left out for size";
      panel.replaceChildren(words);
    }
  };

  text.addEventListener("mouseover", (event) => show(tokens.indexOf(event.target)));
  text.addEventListener("click", (event) => show(tokens.indexOf(event.target)));
  text.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    show(at + step);
    tokens[at].scrollIntoView({ block: "nearest" });
  });
  const refused = tokens.findIndex((token) => token.classList.contains("refused"));
  const wanted = location.hash.slice(1);  // page.html#12 shows the 12th token
  show(/^[0-9]{1,6}$/.test(wanted) && Number(wanted) < tokens.length ? Number(wanted) : Math.max(0, refused));
})();
