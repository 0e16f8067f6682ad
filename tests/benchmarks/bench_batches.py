#!/usr/bin/env python3
"""Cost of a recommender from batches, beside the fit to one table in memory.

    python tests/benchmarks/bench_batches.py [--rows N ...] [--folder FOLDER]

Ratings (text ids of users, a twentieth of the rows and at most 200,000, and of 5,000
films, a day in five years, 1 to 5 stars) are written to a DuckDB file and to a Parquet
data set. `Recommender` reads them

- "table": as one frame of pandas, in memory, which DuckDB makes;
- "database": by `fit_batches`, from a query of DuckDB;
- "files": by `fit_batches`, from the row groups of the Parquet files;
- "partitions": by `fit_batches`, from the partitions of a Dask frame of the files;
- "Dask": by `fit`, from that frame, by threads of the same process.

It protects ratings (sums and months, which needs little time beside the reading) or
users. Every fit is in a process of its own. Printed are processor seconds and wall
seconds of reading and fit, their ratio to those of the table, and by how many MB the
largest resident memory exceeds that after the imports.
"""

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from tests.benchmarks.environments import answers, threads

ROWS = [1_000_000, 10_000_000]
WAYS = ["table", "database", "files", "partitions", "Dask"]
N_FILMS, BATCH = 5_000, 200_000
OPTIONS = {"threads": 1, "memory_limit": "300MB"}


def write(folder, n_rows):
    """A database file and a Parquet data set, unless they exist."""
    import duckdb

    path, files = folder / f"{n_rows}.duckdb", folder / f"{n_rows}"
    if files.exists():
        return
    with duckdb.connect(path, config=OPTIONS) as database:
        database.execute(f"""
            CREATE TABLE ratings AS SELECT
              'customer-' || hash(i, 1) % {min(n_rows // 20, 200_000)} AS user_id,
              'film number ' || hash(i, 2) % {N_FILMS} AS film,
              DATE '2021-01-01' + CAST(hash(i, 3) % 1826 AS INTEGER) AS day,
              CAST(1 + hash(i, 4) % 5 AS TINYINT) AS stars
            FROM range({n_rows}) ids(i)""")
        files.mkdir()
        for k, first in enumerate(range(0, n_rows, 1_000_000)):
            database.execute(
                f"COPY (SELECT * FROM ratings LIMIT 1000000 OFFSET {first}) "
                f"TO '{files / f'{k:04}.parquet'}' (ROW_GROUP_SIZE {BATCH})"
            )


def measure(folder, n_rows, way, unit):
    """One fit, in this process."""
    import duckdb
    import numpy as np
    import pyarrow.dataset as ds

    from sktensordp.completion import CoordinateEncoder, CPCompletion, Recommender

    if way in ("partitions", "Dask"):
        import dask.dataframe as dd
    is_private = unit == "users"
    films = [f"film number {k}" for k in range(N_FILMS)]
    encoder = CoordinateEncoder(freq="M")
    if is_private:
        encoder = CoordinateEncoder(categories=[None, films])
    model = CPCompletion(
        0, levels=np.arange(1, 6), perturbation="sums", random_state=0,
        unit=0 if is_private else "entry",
    )  # fmt: skip
    model = Recommender(model, encoder)
    columns = ["user_id", "film", *["day"] * (not is_private)]
    query = f"SELECT {', '.join([*columns, 'stars'])} FROM ratings"
    files = folder / f"{n_rows}"
    before, start = memory(), perf_counter()
    busy = processor()
    with duckdb.connect(
        folder / f"{n_rows}.duckdb", read_only=True, config=OPTIONS
    ) as database:
        if way == "table":
            table = database.sql(query).df()
            model.fit(table[columns], table["stars"])
        elif way == "database":
            model.fit_batches(lambda: database.sql(query).to_arrow_reader(BATCH))
        elif way == "files":
            chosen = {"columns": [*columns, "stars"], "batch_size": BATCH}
            ratings = ds.dataset(files)
            model.fit_batches(
                lambda: ratings.to_batches(
                    **chosen, batch_readahead=1, fragment_readahead=1
                )
            )
        elif way == "partitions":
            parts = dd.read_parquet(files)[[*columns, "stars"]].to_delayed()
            model.fit_batches(lambda: (part.compute() for part in parts))
        else:
            frame = dd.read_parquet(files)
            model.fit(frame[columns], frame["stars"])
    return {
        "processor": processor() - busy,
        "wall": perf_counter() - start,
        "memory": memory() - before,
    }


def memory():
    """Largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def processor():
    """Processor seconds of this process, with its threads."""
    times = os.times()
    return times.user + times.system


def main():
    """Measure all ways, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--ways", nargs="*", default=WAYS)
    parser.add_argument("--folder", type=Path, help="where the data are written")
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        n_rows, way, unit = arguments.case
        print(json.dumps(measure(arguments.folder, int(n_rows), way, unit)))
        return
    print(f"{platform.machine()}, Python {platform.python_version()}")
    print(f"{'rows':>10} {'protected':>9} {'way':>9} {'processor s':>11} "
          f"{'ratio':>6} {'wall s':>7} {'MB':>6}")  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        for n_rows in arguments.rows:
            write(folder, n_rows)
            for unit in ("ratings", "users"):
                of_table = float("nan")
                for way in arguments.ways:
                    case = "--folder", folder, "--case", n_rows, way, unit
                    (one,) = answers(sys.executable, __file__, *case, **threads(1))
                    if way == "table":
                        of_table = one["processor"]
                    print(f"{n_rows:10} {unit:>9} {way:>9} {one['processor']:11.1f} "
                          f"{one['processor'] / of_table:6.2f} {one['wall']:7.1f} "
                          f"{one['memory']:6.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
