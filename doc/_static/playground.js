// The sliders of playground.md. All numbers follow from the formulas on that page, and
// from its table of measured errors.
(() => {
  const form = document.querySelector("form.playground");
  const table = document.querySelector(".measured table");
  if (!form || !table) return;

  const LOW = 0.5, HIGH = 5, RANGE = HIGH - LOW, RATINGS = 10;
  const field = (name) => form.elements.namedItem(name);
  const text = (cell) => cell.textContent.trim();

  // Measured errors: by data set, pairs of log2(epsilon) and RMSE.
  const epsilons = [...table.querySelectorAll("thead th")].slice(1).map(text).map(Number);
  const measured = [...table.querySelectorAll("tbody tr")].map((row) => {
    const [name, ...errors] = [...row.children].map(text);
    return {
      name,
      points: errors
        .map((error, n) => ({at: Math.log2(epsilons[n]), error}))
        .filter(({at, error}) => error !== "" && Number.isFinite(at))
        .map(({at, error}) => ({at, error: Number(error)})),
    };
  });

  const interpolated = (points, at) => {
    const after = points.findIndex((point) => point.at >= at);
    if (after < 0 || (after === 0 && points[0].at > at)) return null;
    if (points[after].at === at) return points[after].error;
    const [a, b] = [points[after - 1], points[after]];
    return a.error + ((b.error - a.error) * (at - a.at)) / (b.at - a.at);
  };

  const digits = (value) => (value < 0.1 ? value.toPrecision(2) : value.toFixed(2));
  const stars = (value) => `${digits(value)} stars`;
  // Rounded up: what an attacker can do is never understated.
  const percent = (part) => {
    const scale = part > 0.999 ? 100 : 10;  // as in the tables of other pages
    return `${Math.ceil(100 * scale * part) / scale}%`;
  };
  const guesses = (epsilon) => 1 / (1 + Math.exp(-epsilon));

  // The density of a rating with noise, for a picture from -4 to 9.5 stars.
  const left = -4, width = 13.5, [wide, high] = [600, 115];
  const place = (value) => (wide * (value - left)) / width;
  const outline = (rating, scale) => {
    const steps = [...Array(301).keys()].map((n) => left + (width * n) / 300);
    const points = [...steps, rating].sort((a, b) => a - b).map((value) => {
      const share = Math.exp(-Math.abs(value - rating) / scale);
      return `${place(value).toFixed(1)},${(120 - high * share).toFixed(1)}`;
    });
    return `M${points.join("L")}`;
  };

  const show = () => {
    const at = Number(field("epsilon").value), epsilon = 2 ** at;
    const users = Math.round(10 ** Number(field("users").value));
    const scale = RANGE / epsilon, deviation = Math.SQRT2 * scale;
    const errors = measured.map(({name, points}) => {
      const error = interpolated(points, at);
      return `${name}: ${error === null ? "not measured" : error.toFixed(3)}`;
    });
    const shown = {
      "epsilon-is": epsilon.toPrecision(3).replace(/\.?0+$/, ""),
      "users-are": users.toLocaleString("en"),
      noise: stars(deviation),
      guess: percent(guesses(epsilon)),
      "guess-ten": percent(guesses(RATINGS * epsilon)),
      mean: stars(deviation / Math.sqrt(users)),
      sum: stars(deviation / users),
      errors: errors.join("\n"),
    };
    for (const [name, value] of Object.entries(shown)) field(name).value = value;
    form.querySelector(".low").setAttribute("d", outline(LOW, scale));
    form.querySelector(".high").setAttribute("d", outline(HIGH, scale));
  };

  form.querySelectorAll("svg text").forEach((label, n) => {
    const rating = [LOW, HIGH][n];
    label.setAttribute("x", place(rating));
    label.textContent = `${rating} stars`;
  });
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  show();
})();
