"""`read_ratings` reads every dialect of public files of ratings, or refuses it."""

import gzip
import re
import zipfile

import numpy as np
import pandas as pd
import pytest

from sktensordp.datasets import read_ratings
from tests.support.seams import datasets_files

TIMES = [978300760, 978302109, 978301968]
ROWS = [("ann", 7, 4.5, TIMES[0]), ("bob", 12, 3, TIMES[1]), ("Zoë", 7, 1, TIMES[2])]
HEADER = "userId{0}movieId{0}rating{0}timestamp\n"


def lines(separator, rows=ROWS, header=False):
    """Rows of a file of text."""
    text = "\n".join(separator.join(f"{field}" for field in row) for row in rows)
    return HEADER.format(separator) * header + text + "\n"


def written(path, text, encoding="utf-8"):
    """A file with this text."""
    path.write_bytes(text.encode(encoding))
    return path


WITH_TIMES = {
    "comma and header": lines(",", header=True),
    "comma": lines(","),
    "tabulator": lines("\t"),
    "semicolon and header": lines(";", header=True),
    "two colons": lines("::"),
    "bar": lines("|"),
    "spaces": lines(" "),
    "aligned": "  " + lines("   ").replace("ann   ", "ann "),
    "comma and space": lines(", "),
    "unusual, with spaces": lines(" ^~ "),
    "hyphens with spaces": lines(" - "),
    "unusual": lines("#"),
    "quotes": "".join(f'"{u}","{i}","{r}","{t}"\n' for u, i, r, t in ROWS),
    "decimal comma": lines(";").replace("4.5", "4,5"),
    "comments above": "% ratings\n\n# of films\n" + lines("\t"),
    "lines of Windows": lines(",", header=True).replace("\n", "\r\n"),
    "no end of line": lines(",").rstrip("\n"),
    "empty lines": lines(",").replace("\n", "\n\n"),
    "separator at the end": lines(",").replace("\n", ",\n"),
}


@pytest.mark.parametrize("dialect", WITH_TIMES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_dialects(dialect, encoding, tmp_path):
    found = read_ratings(written(tmp_path / "file", WITH_TIMES[dialect], encoding))
    data, target = found.data, found.target
    assert list(data.iloc[:, 0]) == ["ann", "bob", "Zoë"]
    assert data.dtypes.iloc[1] == data.dtypes.iloc[2] == np.int64
    assert list(data.iloc[:, 1]) == [7, 12, 7]
    assert list(data.iloc[:, 2]) == TIMES
    assert target.dtype == np.float64
    assert list(target) == [4.5, 3, 1]
    has_header = "userId" in WITH_TIMES[dialect]
    names = (
        ["userId", "movieId", "timestamp"] if has_header else ["user", "item", "time"]
    )
    assert list(data.columns) == found.feature_names == names
    assert target.name == found.target_names[0] == "rating"
    assert found.frame.equals(data.assign(rating=target))


def test_what_the_function_found_out(tmp_path):
    path = written(tmp_path / "file", WITH_TIMES["decimal comma"], "latin-1")
    assert read_ratings(path).DESCR == (
        "text in latin-1, separator ';', decimal comma, no header; columns: user 0, "
        "item 1, rating 2, time 3"
    )


@pytest.mark.parametrize("kind", ["gz", "zip", "gz by another name"])
def test_compressed(kind, tmp_path):
    raw, path = lines("::").encode(), tmp_path / f"ratings.{kind[:3].strip()}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.mkdir("ml")
            archive.writestr("ml/ratings.dat", raw)
    else:
        path = path if kind == "gz" else tmp_path / "ratings.csv"
        path.write_bytes(gzip.compress(raw))
    assert list(read_ratings(path).target) == [4.5, 3, 1]
    if kind != "zip":
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(ValueError, match="cannot be decompressed"):
            read_ratings(path)


def test_an_archive_of_several_files(tmp_path):
    path = tmp_path / "ratings.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("ratings.csv", "movies.csv"):
            archive.writestr(name, lines(","))
    with pytest.raises(ValueError, match=r"holds 2 files. Unzip it, and pass the one"):
        read_ratings(path)


def test_a_spreadsheet_is_refused_by_name(tmp_path):
    path = tmp_path / "ratings.xlsx"
    for members in (["[Content_Types].xml", "xl/workbook.xml"], ["content.xml"]):
        with zipfile.ZipFile(path, "w") as archive:
            for name in members:
                archive.writestr(name, "<xml/>")
        with pytest.raises(ValueError, match=r"spreadsheet.*Save its sheet as CSV"):
            read_ratings(path)
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500))
    with pytest.raises(ValueError, match="is a spreadsheet"):
        read_ratings(path)


def test_parquet(tmp_path):
    path = tmp_path / "file"
    frame = pd.DataFrame(
        {
            "film": ["007", "12", "007"],
            "stars": np.array([4, 3, 1], dtype=np.int8),
            "who": [3, 1, 2],
            "at": pd.to_datetime(TIMES, unit="s"),
        }
    )
    frame[["who", "film", "stars", "at"]].to_parquet(path)
    found = read_ratings(path)
    assert list(found.data.columns) == ["who", "film", "at"]
    assert list(found.data["film"]) == ["007", "12", "007"]
    assert found.data["at"].equals(frame["at"])
    assert list(found.target) == [4, 3, 1]
    assert found.DESCR == "Parquet; columns: user who, item film, rating stars, time at"
    frame.to_parquet(path)
    with pytest.warns(UserWarning, match="'film' as users, 'stars' as items"):
        assert read_ratings(path).data.shape == (3, 3)
    by_name = read_ratings(path, columns=["who", "film", "stars"])
    assert list(by_name.data["who"]) == [3, 1, 2]
    frame["stars"] = [4, None, 1]
    frame.to_parquet(path)
    with pytest.raises(ValueError, match="row 1, counted from 0, has no rating"):
        read_ratings(path, columns=[2, 0, 1])
    with pytest.raises(ValueError, match="holds times"):
        read_ratings(path, columns=["who", "film", "at"])
    with pytest.raises(ValueError, match="something other than numbers"):
        read_ratings(path, columns=["who", "stars", "film"])


def test_a_column_has_the_type_that_all_its_values_have(tmp_path):
    """Ids keep their zeros, and names that mean "missing" elsewhere are ids."""
    rows = ["007,1,5", "7,2,4", "NA,3,3", "nan,-4,2", "null,5,1", '"7"" single",6,1']
    found = read_ratings(written(tmp_path / "file", "\n".join(rows)))
    assert list(found.data["user"]) == ["007", "7", "NA", "nan", "null", '7" single']
    assert list(found.data["item"]) == [1, 2, 3, -4, 5, 6]
    assert found.data["item"].dtype == np.int64
    too_long = read_ratings(written(tmp_path / "file", f"{10**19},1,5\n1,2,4"))
    assert list(too_long.data["user"]) == [f"{10**19}", "1"]


@pytest.mark.parametrize("late", ["x", "007"])
def test_types_do_not_depend_on_how_many_rows_are_parsed_at_a_time(
    late, tmp_path, monkeypatch
):
    monkeypatch.setattr(datasets_files, "_N_ROWS", 4)
    rows = [f"{i},{i % 3},{1 + i % 5}" for i in range(10)]
    found = read_ratings(written(tmp_path / "file", "\n".join([*rows, f"{late},1,2"])))
    assert list(found.data["user"]) == [*map(str, range(10)), late]
    assert found.data["item"].dtype == np.int64
    assert found.data.index.equals(pd.RangeIndex(11))


def test_quoted_separators_are_text(tmp_path):
    for separator in (",", ";", "::", "\t", " "):
        rows = [("ann", f'"Crime{separator}Time"', 4), ("bob", '"He said ""no"""', 5)]
        found = read_ratings(written(tmp_path / "file", lines(separator, rows)))
        assert list(found.data["item"]) == [f"Crime{separator}Time", 'He said "no"']


@pytest.mark.parametrize(
    ("times", "dtype"),
    [
        (["2009-01-01 00:00:00", "2010-02-03 04:05:06"], "M"),
        (["2009-01-01", "2010-02-03"], "M"),
        (["1.5e9", "1600000000.5"], "f"),
    ],
)
def test_times(times, dtype, tmp_path):
    rows = [("ann", 1, 4, times[0]), ("bob", 2, 3, times[1])]
    found = read_ratings(written(tmp_path / "file", lines(",", rows)))
    assert found.data["time"].dtype.kind == dtype
    assert len(set(found.data["time"])) == 2


def test_a_fourth_column_without_times_is_left_out(tmp_path):
    rows = [("ann", 1, 4, "fine"), ("bob", 2, 3, "dull")]
    path = written(tmp_path / "file", lines(",", rows))
    assert read_ratings(path).feature_names == ["user", "item"]
    with pytest.raises(ValueError, match="line 1: the time is no number and no ISO"):
        read_ratings(path, columns=[0, 1, 2, 3])


def test_columns_by_name_and_position(tmp_path):
    text = "product,stars,when,who\nB1,5,2009-01-01,ann\nB2,4,2009-01-02,bob\n"
    path = written(tmp_path / "file", text)
    for columns in (["who", "product", "stars", "when"], [3, 0, 1, 2]):
        found = read_ratings(path, columns=columns)
        assert found.feature_names == ["who", "product", "when"]
        assert list(found.data["who"]) == ["ann", "bob"]
        assert list(found.target) == [5, 4]
    with pytest.raises(ValueError, match="has no column 'user', or has it twice"):
        read_ratings(path, columns=["user", "product", "stars"])
    with pytest.raises(ValueError, match="has no column 4"):
        read_ratings(path, columns=[4, 0, 1])
    for columns in ("abc", [0, 1], [0, 1, 1], [0, 1, 2, 3, 4]):
        with pytest.raises(ValueError, match="three or four different columns"):
            read_ratings(path, columns=columns)


def test_equal_names_in_a_header(tmp_path):
    path = written(tmp_path / "file", "id,id,stars\nann,1,5\nbob,2,4\n")
    assert list(read_ratings(path).frame) == ["user", "item", "rating"]


def test_a_header_in_another_order_is_warned_of(tmp_path):
    path = written(tmp_path / "file", "item,user,rating\n1,7,5\n2,8,4\n")
    with pytest.warns(UserWarning, match="'item' as users, 'user' as items"):
        read_ratings(path)
    read_ratings(path, columns=["user", "item", "rating"])


WIDE = "\n".join(",".join(str(i * j % 7) for j in range(30)) for i in range(9))
REFUSED = {
    "blocks by film": ("1:\n7,4,2005-01-01\n8,3,2005-01-02\n", "holds blocks: line 1"),
    "times third": (
        lines(",", [("ann", 1, TIMES[0], 4)] * 3),
        r"columns=\[0, 1, 3, 2\]",
    ),
    "dates third": (lines(",", [("ann", 1, "2009-01-01", 4)] * 3), "holds times"),
    "text third": (
        lines(",", [("ann", 1, "fine", 4)] * 3),
        "something other than numbers",
    ),
    "choices": (lines(",", [("ann", 1), ("bob", 2)]), "ImplicitCompletion"),
    "one column": ("1\n2\n3\n", "no separator splits its lines"),
    "wide": (WIDE, r"has 30 columns.*stack\(\)"),
    "wide, few items": (
        lines(",", [(5, 99, -7.82, 8.79, 99), (3, 4.08, 99, 0.29, -1)] * 9),
        r"has 5 columns.*stack\(\)",
    ),
    "JSON": ('{"user": 1, "item": 2, "stars": 3}\n' * 3, "pandas.read_json"),
    "HTML": ("<html>\n<body>\n", "XML or HTML"),
    "nothing": ("\n\n", "has no rows"),
    "a header alone": ("user,item,rating\n", "has no rows"),
    "no text": ("\0\1\2", "neither text nor a Parquet file"),
    "a column more": (
        "a,1,5\nb,2,4\nc,3,3\n" * 9 + "d,secret,4,5\n",
        "line 28: 4 columns",
    ),
    "a column less": ("a,1,5\nb,2,4\nc,3,3\n" * 9 + "secret,4\n", "line 28: no rating"),
    "no user": ("a,1,5\n" * 19 + ",secret,4\n", "line 20: no user"),
    "an open quote": ("a,1,5\n" * 19 + 'b,"secret,4\n' + "a,1,5\n", "line 20: a quote"),
    "no number": ("a,1,5\n" * 19 + "b,2,secret\n", "line 20: the rating is no number"),
    "below empty lines": ("a,1,5\n\n" * 19 + "b,2,secret\n", "line 39: the rating is"),
    "infinite": ("a,1,5\n" * 19 + "b,2,inf\n", "line 20: the rating is no number"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind, tmp_path):
    """By the number of the line, and without anything of it."""
    text, message = REFUSED[kind]
    path = written(tmp_path / "ratings.txt", text)
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)) as raised:
        read_ratings(path)
    assert "secret" not in str(raised.value)


def test_the_recipe_for_blocks(tmp_path, monkeypatch):
    """The advice of the refusal does what it says."""
    monkeypatch.chdir(tmp_path)
    path = written(
        tmp_path / "file", "1:\n7,4,2005-01-01\n8,3,2005-01-02\n2:\n7,1,2005-02-01"
    )
    with pytest.raises(ValueError, match="Write it in every row") as raised:
        read_ratings(path)
    names = {"pandas": pd, "path": path}
    exec(str(raised.value).split("row:\n")[1], names)
    names["table"].to_csv(path, index=False)
    found = read_ratings(path, columns=["user", "item", "rating", "time"])
    assert found.frame.values.tolist() == [
        [7, 1, pd.Timestamp("2005-01-01"), 4.0],
        [8, 1, pd.Timestamp("2005-01-02"), 3.0],
        [7, 2, pd.Timestamp("2005-02-01"), 1.0],
    ]


def test_an_open_quote_below_a_header_and_comments(tmp_path):
    text = "% ratings\nuser,item,rating\n" + "a,1,5\n" * 19 + 'b,"secret,4\n'
    with pytest.raises(ValueError, match="line 22: a quote opens, and nothing closes"):
        read_ratings(written(tmp_path / "file", text))


def test_damaged_utf_16(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(lines(",").encode("utf-16")[:-1])
    with pytest.raises(
        ValueError, match="says that it is UTF-16, and is not"
    ) as raised:
        read_ratings(path)
    assert raised.value.__context__ is None


def test_a_first_line_that_is_longer_than_the_others(tmp_path):
    path = written(tmp_path / "file", "x,user,item,rating\n" + "a,1,5\n" * 19)
    for columns in ([0, 1, 3], ["user", "item", "rating"]):
        with pytest.raises(ValueError, match="has not as many columns as the others"):
            read_ratings(path, columns=columns)
    with pytest.raises(ValueError, match="line 1: the rating is no number"):
        read_ratings(path)


def test_digits_of_other_scripts_are_text(tmp_path):
    found = read_ratings(written(tmp_path / "file", "\u0661,1,5\n1,2,4\n"))
    assert list(found.data["user"]) == ["\u0661", "1"]


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_ratings(tmp_path / "file")
