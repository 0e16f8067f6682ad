#!/usr/bin/env python3
"""Fill the figures of README.md, the home page and the results from doc/results.json.

    python doc/make_pages.py

A page says where figures belong: between `<!-- figures: NAME -->` and
`<!-- end of figures -->`, where NAME is a function of this script. The script also
draws the pictures of the results. It measures nothing; doc/make_results.py does.
"""

import json
import math
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md", "doc/index.md", "doc/production.md", "doc/results.md", "doc/claims.md",
    "doc/playground.md", "doc/synthetic.md",
)  # fmt: skip
PLACE = re.compile(
    r"<!-- figures: ([a-z_]+) -->\n.*?<!-- end of figures -->", flags=re.DOTALL
)
STORED = json.loads((ROOT / "doc" / "results.json").read_text())
RUNS = STORED["runs"]


def table_of(run, number=0):
    """A stored table: the label of its rows, its columns, and its rows."""
    table = RUNS[run]["tables"][number]
    (label, columns), rows = table["head"], table["rows"]
    return label, columns, rows


def mean(cell):
    """A cell without its deviation."""
    return cell.partition("±")[0]


def markdown(head, rows):
    """A table in Markdown."""
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def number_of(cell):
    """The number with which a cell begins, or None."""
    found = re.match(r"[\d,]*\.?\d+(e[+-]\d+)?", str(cell))
    return float(found[0].replace(",", "")) if found else None


def rounded(cell):
    """A cell whose numbers have three significant digits, or fewer if it has fewer."""

    def three(match):
        text = match[0].replace(",", "")
        number = float(text)
        if number == 0 or ("." not in text and number < 1000):
            return match[0]
        digits = 2 - math.floor(math.log10(number))
        shown, _, power = text.partition("e")
        known = len(shown.partition(".")[2]) - int(power or 0)
        return f"{round(number, digits):,.{max(0, min(digits, known))}f}"

    return re.sub(r"[\d,]*\.?\d+(e[+-]\d+)?", three, str(cell))


def scores(head, rows, best, *, after=()):
    """A table of scores in Markdown: the best of each column in bold.

    Parameters
    ----------
    head : sequence of str
        The heads of the columns.

    rows : list of list, or list of list of list
        The rows that are compared, each a label and scores; or several groups of them.

    best : callable
        `min` or `max`.

    after : iterable of list
        Rows that are not compared: fits without noise stand last.
    """
    groups = rows if rows and isinstance(rows[0][0], list) else [rows]
    shown = []
    for group in groups:
        group = [[label, *map(rounded, cells)] for label, *cells in group]
        for column in range(1, len(head)):
            numbers = [number_of(row[column]) for row in group]
            known = [number for number in numbers if number is not None]
            for row, number in zip(group, numbers, strict=True):
                if len(set(known)) > 1 and number == best(known):
                    row[column] = f"**{row[column]}**"
        shown += group
    shown += [[label, *map(rounded, cells)] for label, *cells in after]
    first, _, *lines = markdown(head, shown).split("\n")
    return "\n".join([first, "|---" + "|---:" * (len(head) - 1) + "|", *lines])


def measured(run):
    """The line below a table: the command and its time."""
    command, seconds = RUNS[run]["command"], RUNS[run]["seconds"]
    time = "" if seconds is None else f" ({seconds} s)"
    return f"`python {command}`{time}."


def shown(
    run, number=0, *, first, labels, best, columns=None, truth="its true epsilon"
):
    """A stored table in Markdown, and its command.

    Rows that are the same in every column have no noise, and stand last. Published
    rows have other epsilons than their columns say, and are not compared.

    Parameters
    ----------
    run : str
        The name of the run.

    number : int
        Which of its tables.

    first : str
        The head of the first column.

    labels : dict
        The rows to show: what the page calls them, by what the run printed.

    best : callable
        `min` or `max`: which of the scores is the best.

    columns : tuple of str or None
        The heads of the columns to show.

    truth : str
        The label of rows that state the true epsilon of the row before; they become
        part of its label.
    """
    _, names, rows = table_of(run, number)
    places = [names.index(name) for name in columns or names]
    found = {}
    for place, (label, cells) in enumerate(rows):
        if label not in labels or not cells:
            continue
        text = labels[label]
        following = rows[place + 1 : place + 4]
        true = next((row for name, row in following if name == truth), None)
        if true is not None and "published" in label:
            first_true, last_true = true[places[0]], true[places[-1]]
            text += f" (true epsilon {first_true} to {last_true})"
        cells = cells * len(names) if len(cells) == 1 else cells
        found[label] = [text, *(mean(cells[place]) for place in places)]
    missing = labels.keys() - found.keys()
    if missing:
        raise ValueError(f"the run {run!r} has no rows {sorted(missing)}")
    body = [found[label] for label in labels]
    same = [row for row in body if len(set(row[1:])) == 1]
    same.sort(key=lambda row: row[0].endswith("no noise"))
    published = [row for row in body if row not in same and "published" in row[0]]
    compared = [row for row in body if row not in same and row not in published]
    head = [first, *(names[place] for place in places)]
    return f"{scores(head, compared, best, after=published + same)}\n\n{measured(run)}"


def ratings():
    """Errors by epsilon and method, and those without privacy."""
    label, (error, *_), rows = table_of("ratings", 0)
    without = {label: float(error)}
    without.update({name: float(cells[0]) for name, cells in rows})
    _, methods, rows = table_of("ratings", 1)
    errors = {float(e): dict(zip(methods, cells, strict=True)) for e, cells in rows}
    return without, errors


def cost(epsilon):
    """What protection costs at an epsilon, in stars, with the errors."""
    without, errors = ratings()
    best = without["CP, biases and pattern"]
    private = float(errors[epsilon]["auto"])
    return private - best, private, best


def gain():
    """What one gains, in sentences with numbers."""
    costs, private, best = cost(4.0)
    own = {e: float(found["own ratings"]) for e, found in ratings()[1].items()}
    return (
        f"On 100,004 real film ratings, protecting every rating (epsilon = 4) costs "
        f"**{costs:.3f} stars** of accuracy:\nthe root mean squared error (RMSE) of "
        f"predictions is {private:.3f} stars, and {best:.3f} without protection.\nIf "
        f"users get predictions from their own ratings, for their eyes only "
        f"(`personal=True`), the cost is\n**{own[4.0] - best:.3f} stars**. At epsilon "
        f"1, the two costs are {cost(1.0)[0]:.3f} and {own[1.0] - best:.3f} "
        "([results](results.md))."
    )


def played():
    """Errors on three data sets by epsilon, for the page with sliders."""
    without, errors = ratings()
    by_epsilon = {epsilon: row["auto"] for epsilon, row in errors.items()}
    rows = [["MovieLens latest-small", *by_epsilon.values()]]
    rows[0].append(f"{without['CP, biases and pattern']:.3f}")
    published = published_errors()
    for n, split in enumerate(["Douban", "Flixster"]):
        found = {epsilon: f"{row[n]:.3f}" for epsilon, row in published.items()}
        cells = [found.get(f"{epsilon:g}", "") for epsilon in by_epsilon]
        rows.append([split, *cells, found["inf"]])
    head = ["RMSE by epsilon", *(f"{epsilon:g}" for epsilon in by_epsilon), "no noise"]
    return scores(head, [[row] for row in rows], min)


def readme_gain():
    """The same for the README."""
    return gain().replace("](results.md)", "](doc/results.md)")


PUBLISHED = {
    "IMC-GAE (README of `swtheing/IMC-GAE`)": ("0.7211", "0.8838", "18.7018"),
    "GLocal-K (README of `usydnlp/Glocal_K`)": ("0.7208", "", ""),
}
SPLITS = {"douban": "Douban", "flixster": "Flixster", "yahoo_music": "YahooMusic"}


def published_errors(number=0):
    """Our errors on the three splits, by epsilon.

    Table 1 is from own ratings; tables after it are of items with ratings.
    """
    rows = dict(table_of("published", number)[2])
    epsilons = table_of("published", number)[1]
    return {
        epsilon: [float(rows[split][n]) for split in SPLITS]
        for n, epsilon in enumerate(epsilons[:-1])
    }


def published():
    """Errors beside those of others."""
    rows, rated, last = [], [], {}
    for number in range(len(RUNS["published"]["tables"])):
        label = table_of("published", number)[0].removeprefix("RMSE").strip(", ")
        group = rated if "rated" in label else rows
        for epsilon, errors in reversed(published_errors(number).items()):
            how = "no noise" if epsilon == "inf" else f"epsilon {epsilon}"
            if label:
                how = f"{how}, {label}"
            cells = f"{errors[0]:.4f}", f"{errors[1]:.4f}", f"{errors[2]:.2f}"
            row = [f"`CPCompletion`, {how}", *cells]
            if epsilon != "inf":
                group.append(row)
            elif "own" not in label:
                last["rated" in label] = row
    rows = [[name, *cells] for name, cells in PUBLISHED.items()] + rows
    groups = [[*rows, last[False]], [*rated, last[True]]]
    table = scores(["method", *SPLITS.values()], groups, min)
    seconds = [cells[-1] for _, cells in table_of("published")[2]]
    times = ", ".join(seconds[:-1]) + f" and {seconds[-1]}"
    return (
        f"{table}\n\n{measured('published')} Without noise, our fits took {times} "
        "seconds of processor time."
    )


def published_cost():
    """What protecting ratings costs on these splits, in per cent."""
    errors = published_errors()
    costs = {
        epsilon: [
            100 * (error / best - 1)
            for error, best in zip(found, errors["inf"], strict=True)
        ]
        for epsilon, found in errors.items()
    }
    at_4 = costs["4"]
    own = [
        100 * (error / best - 1)
        for error, best in zip(published_errors(1)["4"], errors["inf"], strict=True)
    ]
    return (
        f"Protecting each rating raises the error by {max(costs['16']):.1f}% at most "
        f"at epsilon 16, and by {min(at_4):.1f}% to\n{max(at_4):.1f}% at epsilon 4. If "
        f"users get predictions from their own ratings, that is {min(own):.1f}% to "
        f"{max(own):.1f}%."
    )


# Epsilons of tables that would be too wide with all.
FEW = "1", "4", "16", "64"

METHODS = {
    "declared range": 'table on a grid for every rating (`"input"`, `value_bounds`)',
    "optimal table": 'table of least variance for every rating (`"input"`, `levels`)',
    "sums": 'sums by user and by film (`"sums"`)',
    "statistics": 'sums and right-hand sides (`"statistics"`)',
    "auto": 'the default (`perturbation="auto"`)',
}
RATED = {"auto, rated": "the default, on films with ratings in the fit"}
OWN = {"own ratings": "the same, predictions from own ratings (`personal=True`)"}


def rating_errors():
    """Errors with each rating protected."""
    without, errors = ratings()
    names = {
        "global mean": "global mean", "biases": "user and item biases",
        "CP and biases": "CP of rank 10 with biases",
        "CP, biases and pattern": "the same with the pattern (who rated what)",
    }  # fmt: skip

    def rows(texts):
        return [
            [text, *(found[name] for found in errors.values())]
            for name, text in texts.items()
            if all(name in found for found in errors.values())
        ]

    best = f"{without['CP, biases and pattern']:.3f}"
    table = scores(
        ["epsilon of one rating", *(f"{epsilon:g}" for epsilon in errors)],
        rows(METHODS | OWN), min,
        after=[*rows(RATED), ["no noise", *[best] * len(errors)]],
    )  # fmt: skip
    beside = "; ".join(f"{text} {without[name]:.3f}" for name, text in names.items())
    return f"{table}\n\nWithout privacy: {beside}.\n\n{measured('ratings')}"


def served():
    """Errors of answers for anybody, and of those for the user only."""
    without, errors = ratings()
    best = f"{without['CP, biases and pattern']:.3f}"
    rows = [
        [text, *(errors[epsilon][name] for epsilon in (1.0, 2.0, 4.0)), best]
        for name, text in (
            ("auto", "anybody: computed from what was released (the default)"),
            ("own ratings", "the user only: from their own ratings (`personal=True`)"),
        )
    ]
    head = "who may see the answers for a user", "epsilon 1", "2", "4", "no noise"
    return scores(head, rows, min)


def by_epsilon(run, number):
    """Columns of a table whose rows are epsilons: their names, and their cells."""
    _, names, rows = table_of(run, number)
    rows = [(epsilon, cells) for epsilon, cells in rows if cells and epsilon != "inf"]
    epsilons = [epsilon for epsilon, _ in rows]
    return epsilons, {
        name: [cells[n] for _, cells in rows] for n, name in enumerate(names)
    }


def user_errors():
    """Errors with whole users protected."""
    epsilons, columns = by_epsilon("users", 1)
    new = dict(_rows_of_new_users())
    texts = {
        "sums": 'biases of items (`perturbation="sums"`, rank 0)',
        "statistics": 'factors, too (`"statistics"`)',
        "auto": 'the default (`"auto"`)',
    }
    rows = [[text, *columns[name]] for name, text in texts.items()]
    (rated,) = RATED.items()
    _, names, every = table_of("users", 1)
    no_noise = dict(every)["inf"][names.index("auto")]
    after = [
        [rated[1], *columns[rated[0]]],
        ["the default, new users", *(new[epsilon] for epsilon in epsilons)],
        ["the default, no noise", *[no_noise] * len(epsilons)],
    ]
    table = scores(["epsilon of one user", *epsilons], rows, min, after=after)
    without = RUNS["users"]["tables"][0]
    pairs = [(without["head"][0], without["head"][1][0])]
    pairs += [(name, cells[0]) for name, cells in without["rows"]]
    pairs = [(name.replace(", no noise", ""), error) for name, error in pairs]
    sentence = "; ".join(f"{name} {error}" for name, error in pairs)
    return f"{table}\n\nWithout noise: {sentence}.\n\n{measured('users')}"


def _rows_of_new_users():
    """Errors for users who were not in the fit, by epsilon."""
    table = RUNS["users"]["tables"][2]
    return [(table["head"][0], table["head"][1][0])] + [
        (epsilon, cells[0]) for epsilon, cells in table["rows"]
    ]


def choices():
    """Recalls with whole users protected."""
    epsilons, columns = by_epsilon("choices", -1)
    (_, (no_noise,)) = table_of("choices", 0)[:2]
    rows = [
        ["`ImplicitCompletion`", *columns["ImplicitCompletion"]],
        ["the most popular items for everybody", *columns["popularity"]],
    ]
    after = [
        ["how many items take part", *columns["items"]],
        ["`ImplicitCompletion`, no noise", *[no_noise] * len(epsilons)],
    ]
    table = scores(["epsilon of one user", *epsilons], rows, max, after=after)
    return f"{table}\n\n{measured('choices')}"


def synthetic():
    """Recalls of recommenders that learned from synthetic users."""
    tables = []
    for number, data in enumerate(("visits of a website", "purchases of games")):
        _, epsilons, rows = table_of("synthetic", number)
        heads = [data, f"epsilon {epsilons[0]}", *epsilons[1:-1], "real users"]
        tables.append(scores(heads, [[label, *cells] for label, cells in rows], max))
    return "\n\n".join([*tables, measured("synthetic")])


def synthetic_gap():
    """How far EASE on synthetic users is behind the private model."""
    gaps = []
    for number in range(2):
        rows = dict(map(tuple, table_of("synthetic", number)[2]))
        pairs = list(zip(rows["private model"], rows["EASE"], strict=True))[:-1]
        gaps.append(max(float(model) - float(other) for model, other in pairs))
    return (
        "EASE loses at most {:.3f} of recall beside the private model on the website, "
        "and {:.3f} on games."
    ).format(*gaps)


def claim_rows(variant):
    """Paper, statement, mechanism, claimed, true, audited and verdict of a variant."""
    rows = []
    for paper, cells in table_of("claims")[2]:
        if len(cells) == 7 and cells[2] == variant:
            rows.append([paper, cells[1], cells[0], *cells[3:]])
    return rows


def claims():
    """All claims as published."""
    head = [
        "paper", "statement", "mechanism", "claimed", "true", "proved by the audit",
        "verdict",
    ]  # fmt: skip
    return f"{markdown(head, claim_rows('published'))}\n\n{measured('claims')}"


def statements():
    """The verdict on each statement of the five papers: that on its worst row."""
    order, found = ("holds", "loose", "false"), {}
    for paper, statement, *_, verdict in claim_rows("published"):
        verdict = verdict.split(",")[0]
        if verdict in order and paper not in ("quoted by them", "Chien et al., code"):
            known = found.get((paper, statement), "holds")
            found[paper, statement] = max(known, verdict, key=order.index)
    return found


def of_papers(found, kind):
    """The statements with a verdict, as "Theorems 1 and 3 of Yuan et al."."""
    by_paper = {}
    for (paper, statement), verdict in found.items():
        if verdict == kind:
            by_paper.setdefault(paper, []).append(statement)
    texts = []
    for paper, names in by_paper.items():
        if all(name.startswith("Theorem ") for name in names) and len(names) > 1:
            *most, last = (name.removeprefix("Theorem ") for name in names)
            names = [f"Theorems {', '.join(most)} and {last}"]
        author, _, which = paper.partition(", ")
        text, _, condition = " and ".join(names).partition(", X is ")
        text += f" of {author}{which and f' on {which}'}"
        texts.append(text + (condition and f" if X is {condition}"))
    return "; ".join(texts)


def verdicts():
    """How many of the papers' statements hold, and which are false."""
    found = statements()
    kinds = list(found.values())
    others = claim_rows("sound")
    holds = sum(row[-1] in ("holds", "loose") for row in others)
    return (
        f"Of the papers' {len(found)} statements on privacy, each counted once, "
        f"{len(kinds) - kinds.count('false')} hold:\n"
        f"{kinds.count('holds')} exactly ({of_papers(found, 'holds')}), and\n"
        f"{kinds.count('loose')} with more noise than the claim needs\n"
        f"({of_papers(found, 'loose')}).\n"
        f"{kinds.count('false')} are false ({of_papers(found, 'false')}).\n"
        f"Calibrated by this library, {holds} of {len(others)} mechanisms keep their "
        f"claim."
    )


def new_people():
    """By how much a reading of the encoders' sensitivity fails for new people."""
    title = RUNS["claims"]["tables"][-1]["title"]
    of_encoders = re.findall(r"(\d\.\d+) \((?:task|privacy)-a", title)
    numbers = sorted(map(float, of_encoders))
    return (
        f"With X as the 200 samples of the fit, two of 10,000 new people from the "
        f"same distribution\nhave an epsilon of {numbers[0]:g} to {numbers[-1]:g} for "
        f"a claim of 1, depending on the encoder."
    )


def squares():
    """Private least squares with the right noise beside the default."""
    _, columns, rows = table_of("claims", -1)
    head = ["epsilon of one user", *columns]
    table = scores(head, [[label, *cells] for label, cells in rows], min)
    return f"{table}\n\n{measured('claims')}"


def noise_errors():
    """Expected squared errors of mechanisms, over those of i.i.d. noise."""
    texts = {
        "Gaussian, i.i.d.": "i.i.d. Gaussian", "Laplace (delta = 0)": "Laplace",
        "TVG": "TVG", "MGM": "MGM", "UDN": "UDN", "IDN": "IDN", "MVG": "MVG",
    }  # fmt: skip
    shapes, tables = _errors_by_shape()
    rows = [
        [text, *(found[label][1] if label in found else "" for found in tables)]
        for label, text in texts.items()
    ]
    table = scores(["at the same guarantee", *shapes], rows, min)
    return f"{table}\n\n{measured('errors')}"


def published_noise():
    """The same for the noise that was published, with the true epsilons."""
    shapes, tables = _errors_by_shape()
    rows = [
        [
            label.replace(", published", " as published"),
            *(f"{found[label][3]} (true: {found[label][2]})" for found in tables),
        ]
        for label in ("TVG, published", "UDN, published", "IDN, published")
    ]
    return scores(["at the claimed epsilon", *shapes], [], min, after=rows)


def _errors_by_shape():
    """Shapes of tensors, and for each the cells of every mechanism."""
    tables = RUNS["errors"]["tables"]
    shapes = [table["title"].removeprefix("shape ") for table in tables]
    return shapes, [dict(map(tuple, table["rows"])) for table in tables]


def test_features():
    """Accuracy of a trained classifier on noisy features."""
    return shown(
        "test features", 1, best=max, first="epsilon of an image", columns=FEW,
        labels={
            "i.i.d. Gaussian": "i.i.d. Gaussian",
            "UDN, weights of entries": "UDN, weights of entries",
            "hybrid (delta = 0)": "hybrid", "PrivUnit (delta = 0)": "PrivUnit",
            "UDN, published": "UDN as published", "IDN, published": "IDN as published",
            "no noise": "no noise",
        },
    )  # fmt: skip


# Epsilons of the table of covariances.
SHOWN = "0.1", "1", "10"


def covariance():
    """Errors of a private covariance matrix."""
    return shown(
        "covariance", 0, best=min, first="epsilon", columns=SHOWN,
        labels={
            "i.i.d., symmetrised": "i.i.d. Gaussian, symmetrised",
            "i.i.d., PSD": "i.i.d. Gaussian, positive semidefinite",
            "TVG, weights of ranges": "TVG, weights of ranges",
            "MVG, directions": "MVG, directions",
            "Johnson-Lindenstrauss": "Johnson-Lindenstrauss",
            "variances alone": "variances alone",
            "UDN, published": "UDN as published", "IDN, published": "IDN as published",
        },
    )  # fmt: skip


def covariance_gain():
    """How much weights lessen the error, in a sentence."""
    _, epsilons, rows = table_of("covariance")
    equal, weighted = (
        [float(mean(cell)) for cell in dict(map(tuple, rows))[label]]
        for label in ("i.i.d., PSD", "TVG, weights of ranges")
    )
    gains = dict(
        zip(
            epsilons, (a / b for a, b in zip(equal, weighted, strict=True)), strict=True
        )
    )
    low, middle, high = (f"{gains[epsilon]:.1f}" for epsilon in SHOWN)
    return (
        f"Equal noise has {low} times the error of noise with weights at epsilon "
        f"{SHOWN[0]}, {middle} times at {SHOWN[1]}, and {high} times\nat {SHOWN[2]}."
    )


def federated():
    """Accuracy of a model that learns from the noisy gradients of parties."""
    return shown(
        "federated", best=max, first="epsilon of a record", truth="true epsilon",
        columns=("0.5", "2", "8"),
        labels={
            "Gaussian": "Gaussian = UDN = IDN = MGM", "MVG": "MVG",
            "UDN published": "UDN as published", "no noise": "no noise",
            "chance": "chance",
        },
    )  # fmt: skip


def vertical():
    """Accuracy where parties hold different features."""
    return shown(
        "vertical", best=max, first="epsilon of a sample", truth="true epsilon",
        columns=("1", "4", "8", "16"),
        labels={
            "Gaussian": "Gaussian", "TVG, rows and columns": "TVG, rows and columns",
            "PrivUnit": "PrivUnit", "UDN published": "UDN as published",
            "IDN published": "IDN as published", "no noise": "no noise",
            "public samples alone": "public samples alone",
        },
    )  # fmt: skip


def response():
    """Scores of a classifier that learns from randomised images."""
    return shown(
        "response", best=max, first="epsilon of an image", truth="true epsilon",
        columns=FEW,
        labels={
            "Laplace": "Laplace", "Gaussian = MVG = IDN": "Gaussian = MVG = IDN",
            "response, 2 levels": "randomised response, 2 levels",
            "hybrid": "hybrid", "PrivUnit": "PrivUnit",
            "TLDP-L as published": "TLDP-L as published",
            "TLDP-G as published": "TLDP-G as published",
            "no noise": "no noise",
        },
    )  # fmt: skip


def local_mean():
    """Squared errors of the mean of images."""
    tables = RUNS["local mean"]["tables"][:3]
    names = [table["title"].split(",")[0].split()[-1] for table in tables]
    labels = "Laplace", "Gaussian", "response", "hybrid", "PrivUnit"
    found = [dict(map(tuple, table["rows"][:7])) for table in tables]
    rows = [[label, *(cells[label][2] for cells in found)] for label in labels]
    table = scores(["epsilon of an image", *names], rows, min)
    return f"{table}\n\n{measured('local mean')}"


SIMULATED = {
    "predict the mean, no noise": "predicting the mean",
    "published fit, no noise": "published fit without noise",
    "variational fit, no noise": "our fit without noise",
    "published input": "published, noise on the input",
    "published input, clamped": "the same, clamped (Section 4.2)",
    "published gradient": "published, noise on the gradient (no epsilon holds)",
    "published output": "published, noise on the output (no epsilon holds)",
    "input": 'ours, `"input"`',
    "sums": 'ours, `"sums"`',
    "auto": "ours, the default",
}


def cp():
    """Errors of CP on tensors of the papers' kind."""
    return shown(
        "cp", best=min, first="epsilon of one entry", labels=SIMULATED, columns=FEW
    )


def tucker():
    """Errors of Tucker on tensors of the papers' kind."""
    rows = (
        "predict the mean, no noise", "published fit, no noise",
        "variational fit, no noise", "published input", "published input, clamped",
        "input", "auto",
    )  # fmt: skip
    labels = {row: SIMULATED[row] for row in rows}
    return shown(
        "tucker", best=min, first="epsilon of one entry", labels=labels, columns=FEW
    )


def ratings_study():
    """Errors on users by films by months."""
    return shown(
        "ratings study", best=min, first="epsilon of one rating",
        columns=("1", "4", "16"),
        labels={
            "global mean, no noise": "the global mean",
            "published, no noise": "published fit without noise",
            "model with biases, no noise": "our fit without noise",
            "published input": "published, noise on the input",
            "published input, clamped": "the same, clamped (Section 4.2)",
            "published gradient": "published, noise on the gradient (no epsilon holds)",
            "published output": "published, noise on the output (no epsilon holds)",
            "input": 'ours, `"input"`', "auto": "ours, the default",
        },
    )  # fmt: skip


def encoding():
    """Losses of tasks after encoding, on all data sets."""
    tables = RUNS["encoding"]["tables"][:4]
    labels = "task-aware", "task-agnostic", "privacy-agnostic", "k-ary response"
    columns = "1", "5", "10", "20"
    body = []
    for table in tables:
        title, epsilons = table["head"]
        rows = dict(map(tuple, table["rows"][:6]))
        body.append([])
        for label in labels:
            if label in rows:
                cells = dict(zip(epsilons, rows[label], strict=True))
                data = title.partition(": ")[0]
                found = [cells.get(epsilon, "") for epsilon in columns]
                body[-1].append([f"{data}, {label}", *found])
    return f"{scores(['epsilon', *columns], body, min)}\n\n{measured('encoding')}"


def headlines():
    """The paper's improvements beside ours, each with its data and its epsilon."""
    rows = RUNS["encoding"]["tables"][-1]["rows"]
    labels = [label for label, _ in rows]
    found, data, of_paper = [], "", ""
    for label, cells in rows[labels.index("paper") + 1 :]:
        if not cells:
            data, _, rest = label.partition(" (paper: ")
            of_paper = rest.removesuffix(")")
        elif len(cells) == 4:
            found.append([label, of_paper, cells[0], data, *cells[1:]])
    head = [
        "task-aware", "data of the paper", "paper", "our data", "ours, as published",
        "the same over a box", "ours, with a guarantee",
    ]  # fmt: skip
    return markdown(head, found)


def others():
    """Commands of the runs whose tables only the gallery shows."""
    return "\n".join(f"  - {measured(run)}" for run in ("gradients", "directional"))


def made():
    """When and on what the figures were made."""
    at, runs = STORED["made"], RUNS.values()
    libraries = ", ".join(map(" ".join, at["libraries"].items()))
    commits = sorted({run["commit"] for run in runs})
    return (
        f"The last of the {len(runs)} runs ended on {at['date']}. They are of commit "
        f"{' and '.join(commits)}, measured\non {at['machine']} with Python "
        f"{at['python']}, {libraries}."
    )


def filled(text):
    """A page with the figures as they are stored."""

    def block(match):
        name = match[1]
        figures = globals()[name]()
        return f"<!-- figures: {name} -->\n\n{figures}\n\n<!-- end of figures -->"

    return PLACE.sub(block, text)


def draw_published(ink):
    """How far errors with protection are from those that others published."""
    from matplotlib.figure import Figure

    best = [float(cell) for cell in PUBLISHED["IMC-GAE (README of `swtheing/IMC-GAE`)"]]
    errors = published_errors()
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    for n, name in enumerate(SPLITS.values()):
        ratios = [100 * (found[n] / best[n] - 1) for found in errors.values()]
        axes.plot(range(len(ratios)), ratios, marker="o", label=name)
    axes.axhline(0, color=ink, linewidth=1)
    axes.annotate(
        "IMC-GAE, not private", (len(errors) - 1, 0), (0, 3),
        textcoords="offset points", fontsize=9, ha="right",
    )  # fmt: skip
    labels = ["no noise" if e == "inf" else f"epsilon {e}" for e in errors]
    axes.set_xticks(range(len(labels)), labels)
    axes.set(
        title="What does protecting each rating cost\nbeside published errors?",
        ylabel="error above the published (%)",
    )
    axes.legend(loc="upper left", bbox_to_anchor=(0, 0.92))
    return figure


def draw_ratings(ink):
    """Errors over epsilon with each rating protected."""
    from matplotlib.figure import Figure

    without, errors = ratings()
    epsilons = list(errors)
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    styles = {"auto": {"linewidth": 5, "alpha": 0.35, "zorder": 1, "color": ink}}
    names = [name for name in (*METHODS, *OWN) if name != "statistics"]
    for name in names:
        found = [float(errors[epsilon][name]) for epsilon in epsilons]
        label = "the default takes the best" if name == "auto" else name
        axes.plot(epsilons, found, marker="o", label=label, **styles.get(name, {}))
    for name, text in (("CP, biases and pattern", "no noise"), ("biases", "biases")):
        axes.axhline(without[name], color=ink, linewidth=1, linestyle=":")
        axes.annotate(
            text, (epsilons[0], without[name]), (0, 3), textcoords="offset points",
            fontsize=9,
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set(
        title="What does protecting each rating cost?", xlabel="epsilon of one rating",
        ylabel="RMSE of held-out ratings (stars)",
    )  # fmt: skip
    axes.legend(loc="upper right")
    return figure


def draw_users(ink):
    """Errors over epsilon with whole users protected."""
    from matplotlib.figure import Figure

    epsilons, columns = by_epsilon("users", 1)
    new = dict(_rows_of_new_users())
    curves = {
        "biases of items": columns["sums"], "factors, too": columns["statistics"],
        "the default": columns["auto"],
        "the default, new users": [new[epsilon] for epsilon in epsilons],
    }  # fmt: skip
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    for name, cells in curves.items():
        axes.plot(list(map(float, epsilons)), list(map(float, cells)), "o-", label=name)
    rows = table_of("users", 0)[2]
    without = {name: float(cells[0]) for name, cells in rows}
    for name, text in (
        ("user's own mean, no budget", "each user's own mean, no budget"),
        ("CP with biases, no noise", "no noise"),
    ):
        axes.axhline(without[name], color=ink, linewidth=1, linestyle=":")
        axes.annotate(
            text, (float(epsilons[-1]), without[name]), (0, 3), ha="right",
            textcoords="offset points", fontsize=9,
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(map(float, epsilons)), epsilons)
    axes.set(
        title="What does protecting whole users cost?", xlabel="epsilon of one user",
        ylabel="RMSE of held-out ratings (stars)",
    )  # fmt: skip
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def draw_claims(ink):
    """The true epsilon of each claim of 1."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from pictures import CURVES

    rows = [row for row in claim_rows("published") if not row[-1].startswith("left")]
    colors = {"false": CURVES[1], "loose": CURVES[0], "holds": CURVES[2]}
    figure = Figure(figsize=(6.4, 6.6), layout="constrained")
    axes = figure.subplots()
    most, labels = 200.0, []
    for y, (paper, statement, mechanism, _, true, audited, verdict) in enumerate(rows):
        epsilon = true.strip("()").split(",")[0]
        value = most if epsilon == "infinite" else float(epsilon)
        color = colors[verdict.split(",")[0]]
        axes.plot([1, value], [y, y], color=color, linewidth=3)
        axes.plot(value, y, "o", color=color)
        if float(audited) > 0.03:
            axes.plot(float(audited), y, "|", color=ink, markersize=11)
        author = paper.removesuffix(", code").split(" et")[0]
        if paper == "quoted by them":
            author, statement = statement, ""
        numbered = statement.replace("Theorem ", "Thm. ").split(",")[0]
        labels.append(f"{mechanism} ({author}{numbered and f', {numbered}'})")
    axes.axvline(1, color=ink, linewidth=1)
    ticks = [0.1, 1, 10, most]
    axes.set_xscale("log")
    axes.set_xticks(ticks, ["0.1", "1", "10", "no epsilon\nholds"])
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), labels, fontsize=9)
    axes.set(
        xlim=(0.03, 350), ylim=(len(rows) - 0.4, -0.6), xlabel="epsilon (1 is claimed)",
    )  # fmt: skip
    figure.suptitle("Is a claim of epsilon = 1 true?", x=0.02, ha="left", fontsize=12)
    handles = [
        *(Line2D([], [], color=c, marker="o", linewidth=3) for c in colors.values()),
        Line2D([], [], color=ink, marker="|", linestyle="", markersize=11),
    ]
    names = [
        "false", "true, with more noise than needed", "true", "proved by the audit"
    ]  # fmt: skip
    figure.legend(handles, names, loc="outside lower center", ncols=2)
    return figure


PICTURES = {
    "published": draw_published, "trade_off": draw_ratings, "users_cost": draw_users,
    "claims": draw_claims,
}  # fmt: skip


def main():
    """Fill all pages, and draw the pictures."""
    from pictures import draw

    for page in PAGES:
        path = ROOT / page
        path.write_text(filled(path.read_text()))
    for name, drawing in PICTURES.items():
        draw(name, drawing)


if __name__ == "__main__":
    main()
