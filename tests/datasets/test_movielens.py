import hashlib
import io
import shutil
import socket
import threading
import tracemalloc
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import get_data_home

from sktensordp.datasets import fetch_movielens

# The table of editions and the address, where the function finds them.
GLOBALS = fetch_movielens.__globals__
EDITIONS = GLOBALS["EDITIONS"]
DATA = np.array(
    [[7, 31, 1260759144], [7, 1029, 1260759179], [2, 31, 835355493], [9, 50, 5]]
)
STARS = np.array([3.0, 4.0, 1.0, 5.0])
HALF_STARS = np.array([2.5, 4.0, 0.5, 5.0])
OTHER = np.array([2.5, 4.0, 0.5, 4.5])

MEMBERS = {
    "100k": "ml-100k/u.data",
    "1m": "ml-1m/ratings.dat",
    "10m": "ml-10M100K/ratings.dat",
    "20m": "ml-20m/ratings.csv",
    "25m": "ml-25m/ratings.csv",
    "32m": "ml-32m/ratings.csv",
    "latest-small": "ml-latest-small/ratings.csv",
}


def ratings_of(name):
    return STARS if name in ("100k", "1m") else HALF_STARS


def text_of(name, target=None, newline="\n"):
    """Write the four ratings in the format of a data set."""
    target = ratings_of(name) if target is None else target
    separator = {"data": "\t", "dat": "::", "csv": ","}[MEMBERS[name].split(".")[1]]
    # 10m has whole stars without a decimal point, the files of commas have one.
    form = "{:.1f}" if separator == "," else "{:g}"
    lines = [
        separator.join([str(user), str(item), form.format(value), str(time)])
        for (user, item, time), value in zip(DATA, target, strict=True)
    ]
    if separator == ",":
        lines.insert(0, "userId,movieId,rating,timestamp")
    return "".join(line + newline for line in lines).encode()


def archive_of(name, text=None, member=None):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        # The date of a ZipInfo is fixed, so the same call gives the same bytes.
        readme = zipfile.ZipInfo(MEMBERS[name].split("/")[0] + "/README.txt")
        archive.writestr(readme, "A made-up data set.")
        ratings = zipfile.ZipInfo(member or MEMBERS[name])
        archive.writestr(ratings, text or text_of(name), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def editions_of_archives(algorithm):
    """Put the checksums and the counts of the made-up files in the table."""
    editions = []
    for edition in EDITIONS:
        zip_checksum = ratings_checksum = None
        if edition.edition == "2016":
            digest = hashlib.sha256(text_of("latest-small", OTHER)).hexdigest()
            ratings_checksum = f"sha256:{digest}"
        else:
            digest = hashlib.new(algorithm, archive_of(edition.name)).hexdigest()
            zip_checksum = f"{algorithm}:{digest}"
        checksums = {"zip_checksum": zip_checksum, "ratings_checksum": ratings_checksum}
        editions.append(replace(edition, counts=(3, 3, 4), **checksums))
    return tuple(editions)


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """Replace the table, and keep every test off the network."""
    monkeypatch.setitem(GLOBALS, "EDITIONS", editions_of_archives("sha256"))
    monkeypatch.setitem(GLOBALS, "_URL", "file:///nowhere/ml-{name}.zip")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def files_in(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))


def check(bunch, name, edition=None, target=None):
    assert_array_equal(bunch.data, DATA)
    assert bunch.data.dtype == np.int64
    assert_array_equal(bunch.target, ratings_of(name) if target is None else target)
    assert bunch.target.dtype == np.float64
    assert bunch.edition == (edition or name)


# Files that are there


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
@pytest.mark.parametrize("folder", ["movielens", "."])
@pytest.mark.parametrize("name", MEMBERS)
def test_archive(monkeypatch, tmp_path, name, folder, algorithm):
    monkeypatch.setitem(GLOBALS, "EDITIONS", editions_of_archives(algorithm))
    put(tmp_path / folder / f"ml-{name}.zip", archive_of(name))
    before = files_in(tmp_path)
    bunch = fetch_movielens(name, tmp_path, False)
    check(bunch, name, "2018" if name == "latest-small" else name)
    low = 1.0 if name in ("100k", "1m") else 0.5
    assert_array_equal(bunch.levels, np.arange(low, 5.5, low))
    assert bunch.feature_names == ["user_id", "item_id", "timestamp"]
    assert "10.1145/2827872" in bunch.DESCR
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("folder", ["movielens", "."])
@pytest.mark.parametrize("name", MEMBERS)
def test_unpacked_folder_with_the_counts(tmp_path, name, folder, newline):
    file = MEMBERS[name].split("/")[1]
    put(tmp_path / folder / f"ml-{name}" / file, text_of(name, newline=newline))
    bunch = fetch_movielens(name, tmp_path, False)
    check(bunch, name, "2018" if name == "latest-small" else name)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", [True, False])
def test_known_checksum_of_ratings(tmp_path, packed, newline):
    text = text_of("latest-small", OTHER, newline)
    if packed:
        put(tmp_path / "ml-latest-small.zip", archive_of("latest-small", text))
    else:
        put(tmp_path / "ml-latest-small/ratings.csv", text)
    check(fetch_movielens(data_home=tmp_path), "latest-small", "2016", OTHER)


def test_counts_do_not_stand_in_for_a_known_checksum(monkeypatch, tmp_path):
    editions = [
        edition
        for edition in editions_of_archives("sha256")
        if edition.edition != "2018"
    ]
    monkeypatch.setitem(GLOBALS, "EDITIONS", editions)
    put(tmp_path / "ml-latest-small/ratings.csv", text_of("latest-small"))
    with pytest.raises(OSError, match="fails the verification: expected sha256:"):
        fetch_movielens(data_home=tmp_path)


def test_order_of_the_places(tmp_path):
    places = [
        tmp_path / "movielens/ml-20m.zip",
        tmp_path / "movielens/ml-20m/ratings.csv",
        tmp_path / "ml-20m.zip",
        tmp_path / "ml-20m/ratings.csv",
    ]
    for place in places:
        put(place, b"broken")
    for place in places:
        good = archive_of("20m") if place.suffix == ".zip" else text_of("20m")
        with pytest.raises(OSError, match="ml-20m") as caught:
            fetch_movielens("20m", tmp_path)
        assert str(place) in str(caught.value)
        place.write_bytes(good)
        check(fetch_movielens("20m", tmp_path), "20m")
        place.unlink()


def test_data_home_of_scikit_learn(monkeypatch, tmp_path):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    assert get_data_home() == str(tmp_path)
    put(tmp_path / "movielens/ml-1m.zip", archive_of("1m"))
    check(fetch_movielens("1m"), "1m")


def test_frame(tmp_path):
    pd = pytest.importorskip("pandas")
    put(tmp_path / "ml-100k.zip", archive_of("100k"))
    arrays = fetch_movielens("100k", tmp_path)
    assert "frame" not in arrays
    bunch = fetch_movielens("100k", tmp_path, as_frame=True)
    expected = pd.DataFrame(DATA, columns=["user_id", "item_id", "timestamp"])
    pd.testing.assert_frame_equal(bunch.data, expected)
    expected["rating"] = STARS
    pd.testing.assert_frame_equal(bunch.frame, expected)
    pd.testing.assert_series_equal(bunch.target, expected["rating"])


def test_ratings_as_choices(tmp_path):
    pd = pytest.importorskip("pandas")
    put(tmp_path / "ml-100k.zip", archive_of("100k"))
    choices = fetch_movielens("100k", tmp_path, as_choices=True)
    expected = fetch_movielens("100k", tmp_path).data[:, :2]
    assert (choices.data == expected).all()
    assert choices.feature_names == ["user_id", "item_id"]
    assert not {"target", "levels", "target_names"} & choices.keys()
    frame = fetch_movielens("100k", tmp_path, as_choices=True, as_frame=True)
    pd.testing.assert_frame_equal(
        frame.data, pd.DataFrame(expected, columns=["user_id", "item_id"])
    )


# Files that are refused


@pytest.mark.parametrize("name", ["1m", "latest-small"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "changed", "renamed"])
def test_damaged_archive(tmp_path, name, damage):
    good = archive_of(name)
    content = {
        "truncated": good[:-30],
        "flipped": good.replace(good[150:154], bytes(b ^ 255 for b in good[150:154])),
        "changed": archive_of(name, text_of(name, OTHER[::-1])),
        "renamed": archive_of(name, member="ratings"),
    }[damage]
    path = tmp_path / f"ml-{name}.zip"
    put(path, content)
    with pytest.raises(OSError, match="fails the verification") as caught:
        fetch_movielens(name, tmp_path)
    message = str(caught.value)
    assert str(path) in message
    assert hashlib.sha256(content).hexdigest() in message
    assert hashlib.sha256(good).hexdigest() in message
    # It is not ours to delete.
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "lines",
    [
        ["7,31,2.5,1", "7,32,4.0,1", "2,31,0.5,1"],
        ["7,31,2.5,1", "7,32,4.0,1", "2,31,0.5,1", "2,33,5.0,1"],
        ["7,31,2.5,1", "7,32,4.0,1", "2,31,0.5,1", "9,31,5.0,1"],
        ["7,31,2.5,1", "7,32,4.0,1", "2,31,0.5,1", "9,33,5.5,1"],
    ],
    ids=["ratings", "users", "items", "scale"],
)
def test_unpacked_file_with_other_counts(tmp_path, lines):
    path = tmp_path / "ml-25m/ratings.csv"
    put(path, "\n".join(["userId,movieId,rating,timestamp", *lines]).encode())
    with pytest.raises(OSError, match="expected 3 users, 3 items and 4 ratings") as err:
        fetch_movielens("25m", tmp_path)
    assert str(path) in str(err.value)


@pytest.mark.parametrize(
    "content", [b"", b"a,b,c,d\n", b"a,b,c,d\n1,2,3.0\n", b"a,b,c,d\n1.5,2,3.0,4\n"]
)
def test_unpacked_file_of_something_else(tmp_path, content):
    path = tmp_path / "ml-25m/ratings.csv"
    put(path, content)
    with pytest.raises(OSError, match="is not a MovieLens ratings file") as caught:
        fetch_movielens("25m", tmp_path)
    assert str(path) in str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("packed", "declared"), [(True, True), (True, False), (False, True)]
)
def test_files_are_not_read_beyond_the_largest_size(tmp_path, packed, declared):
    """64 MB of zeros; an archive declares them or not."""
    path = tmp_path / ("ml-latest-small.zip" if packed else MEMBERS["latest-small"])
    large = bytes(2**26) if packed else b""
    content = archive_of("latest-small", large or b"0")
    if packed and not declared:
        # The size in the local header and in the central directory.
        content = content.replace((2**26).to_bytes(4, "little"), bytes([99, 0, 0, 0]))
    put(path, content if packed else b"")
    if not packed:
        with path.open("wb") as file:
            file.truncate(2**26)
    del large
    tracemalloc.start()
    try:
        with pytest.raises(OSError, match="fails the verification"):
            fetch_movielens("latest-small", tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**22


def test_unknown_name(tmp_path):
    with pytest.raises(ValueError, match=r"one of \['100k', .*got '100K'"):
        fetch_movielens("100K", tmp_path)


# Downloads


@contextmanager
def server(body, status=200, declared=None):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(declared or len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    requests = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{httpd.server_port}/ml-{{name}}.zip", requests
        finally:
            httpd.shutdown()
            thread.join()


def test_download_once(monkeypatch, tmp_path):
    body = archive_of("latest-small")
    with server(body) as (url, requests):
        monkeypatch.setitem(GLOBALS, "_URL", url)
        for _ in range(2):
            check(fetch_movielens(data_home=tmp_path), "latest-small", "2018")
    assert requests == ["/ml-latest-small.zip"]
    assert files_in(tmp_path) == ["movielens", "movielens/ml-latest-small.zip"]
    assert (tmp_path / "movielens/ml-latest-small.zip").read_bytes() == body


@pytest.mark.parametrize("broken", ["cut", "changed"])
def test_broken_download_is_not_kept(monkeypatch, tmp_path, broken):
    good = archive_of("1m")
    body = good[:200] if broken == "cut" else archive_of("1m", b"1::2::3::4\n")
    with server(body, declared=len(good) if broken == "cut" else None) as (url, _):
        monkeypatch.setitem(GLOBALS, "_URL", url)
        with pytest.raises(OSError, match=r"ml-1m\.zip") as caught:
            fetch_movielens("1m", tmp_path)
    assert files_in(tmp_path) == ["movielens"]
    if "verification" in str(caught.value):
        assert hashlib.sha256(good).hexdigest() in str(caught.value)
        assert hashlib.sha256(body).hexdigest() in str(caught.value)
    else:
        assert broken == "cut"


def test_no_file_at_the_address(monkeypatch, tmp_path):
    with server(b"none", status=404) as (url, _):
        monkeypatch.setitem(GLOBALS, "_URL", url)
        with pytest.raises(OSError, match=r"Could not download .*404"):
            fetch_movielens("1m", tmp_path)
    assert files_in(tmp_path) == ["movielens"]


def test_no_network(monkeypatch, tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/ml-{{name}}.zip"
        monkeypatch.setitem(GLOBALS, "_URL", url)
        with pytest.raises(OSError, match="Could not download") as caught:
            fetch_movielens("10m", tmp_path)
    message = str(caught.value)
    assert url.format(name="10m") in message
    assert f"save it as {tmp_path / 'movielens' / 'ml-10m.zip'}," in message
    assert "call fetch_movielens again" in message
    assert files_in(tmp_path) == ["movielens"]


@pytest.mark.parametrize("error", [TimeoutError("slow"), KeyboardInterrupt()])
def test_nothing_is_left_of_an_interrupted_download(monkeypatch, tmp_path, error):
    seen = []

    def copy_some(source, destination):
        destination.write(source.read(100))
        destination.flush()
        seen.extend(files_in(tmp_path))
        raise error

    put(tmp_path / "served/ml-1m.zip", archive_of("1m"))
    url = (tmp_path / "served").as_uri() + "/ml-{name}.zip"
    monkeypatch.setitem(GLOBALS, "_URL", url)
    monkeypatch.setattr(shutil, "copyfileobj", copy_some)
    with pytest.raises((OSError, KeyboardInterrupt)):
        fetch_movielens("1m", tmp_path)
    # The part lies in the folder of its final place, and never under its final name.
    assert sum(name.startswith("movielens/") for name in seen) == 2
    assert "movielens/ml-1m.zip" not in seen
    assert files_in(tmp_path / "movielens") == []


def test_not_found_and_not_to_be_downloaded(tmp_path):
    message = "^MovieLens .* is not in .*, and `download_if_missing` is False"
    with pytest.raises(OSError, match=message):
        fetch_movielens("20m", tmp_path, False)
    assert files_in(tmp_path) == []


# The table


def test_table_is_complete():
    assert [edition.name for edition in EDITIONS] == [*MEMBERS, "latest-small"]
    for edition in EDITIONS:
        assert edition.member == MEMBERS[edition.name]
        length = {"md5": 32, "sha256": 64}
        checksum = edition.zip_checksum or edition.ratings_checksum
        algorithm, digest = checksum.split(":")
        assert len(bytes.fromhex(digest)) * 2 == length[algorithm]
        assert f"{edition.counts[2]} ratings" in edition.describe()
