// Comfort on top of pages that do without it: times in the reader's zone, clocks that run, news, and passkeys.
"use strict";

(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const clock = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });

  let isUtc = kept("utc") === "yes";

  function kept(name) {
    try {
      return sessionStorage.getItem(name);
    } catch {
      return null; // a browser that keeps nothing shows the reader's zone
    }
  }

  function showTimes(root) {
    for (const each of root.querySelectorAll("time[datetime]")) {
      const at = new Date(each.dateTime);
      if (!Number.isNaN(at.getTime())) each.textContent = isUtc ? each.title : clock.format(at);
    }
    for (const each of document.querySelectorAll(".zone")) {
      each.textContent = `Times are in ${isUtc ? "UTC" : zone}`;
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

  document.querySelector('.top [aria-current="page"]')?.scrollIntoView({ inline: "center", block: "nearest" });
  showTimes(document);
  runClocks(document);
  setInterval(() => runClocks(document), 1000);

  const other = document.getElementById("utc");
  if (other && zone !== "UTC") {
    other.hidden = false;
    const label = () => (other.textContent = isUtc ? `Show ${zone}` : "Show UTC");
    label();
    other.addEventListener("click", () => {
      isUtc = !isUtc;
      try {
        sessionStorage.setItem("utc", isUtc ? "yes" : "no");
      } catch {
        // it holds for this page
      }
      label();
      showTimes(document);
    });
  }

  // -- news: a page is renewed by itself only where nobody is at it, else it says that there is something new --------

  const QUIET_MS = 3000;
  const GATHER_MS = 400;
  let touchedAt = 0;
  let isTouched = false;
  let isAsking = false;
  let due = 0;

  function main() {
    return document.getElementById("main");
  }

  /** Whether somebody reads, points at, or fills in something that must not move now. */
  function isInUse() {
    const at = document.activeElement;
    const isIn = at && at !== document.body && main().contains(at) && at !== main();
    const hasChosen = (document.getSelection()?.toString() ?? "") !== "";
    return isIn || isTouched || hasChosen || Date.now() - touchedAt < QUIET_MS;
  }

  function offer(isThere) {
    const bar = document.getElementById("news");
    if (bar) bar.hidden = !isThere;
  }

  async function renew() {
    if (isAsking) return;
    isAsking = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = fresh.getElementById("main");
      if (!found) return;
      if (isInUse()) {
        offer(true);
        return;
      }
      const open = [...main().querySelectorAll("details[open]")].map((one) => one.querySelector("summary")?.textContent);
      for (const one of found.querySelectorAll("details")) {
        if (open.includes(one.querySelector("summary")?.textContent)) one.open = true;
      }
      main().replaceChildren(...found.childNodes);
      const badges = fresh.querySelector(".top nav");
      if (badges && !document.querySelector(".top").matches(":hover, :focus-within")) {
        document.querySelector(".top nav").replaceChildren(...badges.childNodes);
      }
      offer(false);
      showTimes(document);
      runClocks(document);
    } catch {
      // the connection tells of itself
    } finally {
      isAsking = false;
    }
  }

  function follow(live) {
    const { saga, after } = main().dataset;
    const asked = new URLSearchParams(saga ? { after, saga } : { after });
    const source = new EventSource(`/news?${asked}`);
    const told = document.getElementById("connection");
    source.onopen = () => {
      if (told.textContent) due = due || setTimeout(news, 0);
      told.textContent = "";
      document.documentElement.dataset.live = "on";
    };
    source.onerror = () => {
      told.textContent = "· No news comes in: the server cannot be reached, or you are logged out.";
      document.documentElement.dataset.live = "off";
    };
    function news() {
      due = 0;
      if (live === "news") offer(true);
      else if (!isInUse()) renew();
      else {
        offer(true);
        due = setTimeout(news, QUIET_MS);
      }
    }
    source.onmessage = () => {
      due = due || setTimeout(news, GATHER_MS);
    };
    document.getElementById("news")?.querySelector("button").addEventListener("click", () => location.reload());
    main().addEventListener("pointermove", () => (touchedAt = Date.now()), { passive: true });
    main().addEventListener("pointerdown", () => (touchedAt = Date.now()), { passive: true });
    main().addEventListener("input", () => (isTouched = true));
    addEventListener("pagehide", () => source.close());
  }

  const live = main()?.dataset.live;
  if (live && "EventSource" in window) follow(live);

  // -- passkeys: they sign what is shown, and are enrolled for the name of this host --------------------------------

  const bytes = (text) => new TextEncoder().encode(text);
  const base64 = (raw) => btoa(String.fromCharCode(...new Uint8Array(raw)));

  function say(text) {
    const told = document.getElementById("passkey-told");
    if (told) told.textContent = text;
  }

  async function sign(form) {
    const challenge = await crypto.subtle.digest("SHA-256", bytes(form.elements.statement.value));
    const found = await navigator.credentials.get({
      publicKey: { challenge, rpId: location.hostname, userVerification: "preferred", timeout: 120000 },
    });
    const said = found.response;
    const parts = [said.authenticatorData, said.clientDataJSON, said.signature];
    form.elements.passkey.value = parts.map(base64).join(".");
    form.submit();
  }

  async function enrol(form) {
    const name = form.elements.person.value.trim();
    if (!name) throw new Error("say first whose it is");
    const made = await navigator.credentials.create({
      publicKey: {
        rp: { id: location.hostname, name: "amends" },
        user: { id: crypto.getRandomValues(new Uint8Array(16)), name, displayName: name },
        challenge: crypto.getRandomValues(new Uint8Array(32)),
        pubKeyCredParams: [{ type: "public-key", alg: -7 }],
        authenticatorSelection: { residentKey: "required", userVerification: "preferred" },
        attestation: "none",
        timeout: 120000,
      },
    });
    const point = new Uint8Array(made.response.getPublicKey()).slice(-65);
    form.elements.key.value = `webauthn-es256 ${base64(point)} ${location.hostname}`;
    say("Made. Now enrol it.");
  }

  function onPress(id, what) {
    const button = document.getElementById(id);
    button?.addEventListener("click", async () => {
      button.disabled = true;
      say("");
      try {
        await what(button.form);
      } catch (error) {
        say(error.name === "NotAllowedError" ? "Nothing was signed or made: it was declined, or no passkey fits." : error.message);
      } finally {
        button.disabled = false;
      }
    });
  }

  if ("credentials" in navigator && "PublicKeyCredential" in window) {
    for (const each of document.querySelectorAll(".passkey")) each.hidden = false;
    onPress("sign-with-passkey", sign);
    onPress("make-passkey", enrol);
  }
})();
