// Comfort on top of pages that do without it: times in the reader's zone, and clocks that run.
"use strict";

(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const clock = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });

  function showTimes(root) {
    for (const each of root.querySelectorAll("time[datetime]")) {
      const at = new Date(each.dateTime);
      if (!Number.isNaN(at.getTime())) each.textContent = clock.format(at);
    }
    for (const each of root.querySelectorAll(".zone")) {
      each.textContent = `Times are in ${zone}; point at one for UTC`;
    }
  }

  function span(ms) {
    const s = Math.max(0, Math.round(ms / 1000));
    if (s >= 172800) return `${Math.round(s / 86400)} d`;
    if (s >= 7200) return `${Math.round(s / 3600)} h`;
    if (s >= 120) return `${Math.round(s / 60)} min`;
    return `${s} s`;
  }

  function runClocks(root) {
    for (const each of root.querySelectorAll("[data-until]")) {
      const left = Number(each.dataset.until) - Date.now();
      each.textContent = left > 0 ? `${span(left)} left` : "expired";
      each.classList.toggle("late", left <= 0);
    }
  }

  showTimes(document);
  runClocks(document);
  setInterval(() => runClocks(document), 1000);
})();
