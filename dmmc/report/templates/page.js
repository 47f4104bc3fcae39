"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const touch = matchMedia("(pointer: coarse)").matches; // there a drag scrolls the page
  const common = { responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", showTips: false };
  for (const { id, data, layout, config } of figures) {
    if (touch) layout.dragmode = false;
    document.getElementById(id).style.height = `${layout.height}px`; // kept when plotly fits the plot to its element
    Plotly.newPlot(id, data, layout, { ...common, ...config });
  }
  const has = (id) => figures.some((figure) => figure.id === id);

  // One cluster at the front: a button, a bar or a line of the table chooses it; the same again, or "all", gives it back.
  const chooser = document.querySelector(".chooser");
  let chosen = "";
  const choose = (cluster) => {
    chosen = cluster === chosen ? "" : cluster;
    const strength = (own, faded) => (chosen === "" || String(own) === chosen ? 1 : faded);
    for (const button of chooser.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.dataset.cluster === chosen));
    }
    for (const card of document.querySelectorAll("[data-of]")) {
      card.hidden = chosen !== "" && card.dataset.of !== chosen;
    }
    for (const line of document.querySelectorAll("[data-row]")) {
      line.classList.toggle("chosen", line.dataset.row === chosen);
    }
    for (const { id, data } of figures) {
      if (id === "plot-sizes") {
        Plotly.restyle(id, { "marker.opacity": [data[0].x.map((own) => strength(own, 0.25))] });
      } else if (id === "plot-map" || id === "plot-margins") {
        Plotly.restyle(id, { opacity: data.map((trace) => strength(trace.meta, 0.08)) });
      }
    }
  };
  chooser.hidden = false;
  chooser.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) choose(button.dataset.cluster);
  });
  for (const line of document.querySelectorAll("[data-row]")) {
    line.addEventListener("click", () => choose(line.dataset.row));
  }
  if (has("plot-sizes")) {
    document.getElementById("plot-sizes").on("plotly_click", (event) => choose(String(event.points[0].x)));
  }

  // Plots keep the width they were drawn with; on paper they get the width of a sheet.
  const fit = (paper) => {
    document.body.classList.toggle("sheet", paper);
    for (const { id } of figures) Plotly.relayout(id, { autosize: true });
  };
  addEventListener("beforeprint", () => fit(true));
  addEventListener("afterprint", () => fit(false));
})();
