"""A file that cannot be written is said in one line, and what was there before stays."""

import resource

import pytest

from setpred.errors import UsageError
from setpred.files import remove_remains, replacing


@pytest.fixture
def files_of_at_most_4096_bytes():
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_is_replaced_at_once(tmp_path):
    path = tmp_path / "deep" / "file"
    for text in ("first", "second"):
        with replacing(path) as temporary:
            temporary.write_text(text)
            assert not path.exists() or path.read_text() == "first"
    assert path.read_text() == "second"
    assert list(path.parent.iterdir()) == [path]


def test_where_writing_stops_midway_the_old_file_stays_and_nothing_else(tmp_path, files_of_at_most_4096_bytes):
    path = tmp_path / "weights"
    path.write_text("good")
    with (
        pytest.raises(UsageError, match=r"weights cannot be written \(File too large\): make room"),
        replacing(path) as t,
    ):
        t.write_bytes(bytes(100_000))
    assert path.read_text() == "good"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_below_a_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UsageError, match=r"cannot be written \(Not a directory\)"),
        replacing(tmp_path / "file" / "run" / "config.yaml") as temporary,
    ):
        temporary.write_text("")


def test_other_errors_stay_what_they_are(tmp_path):
    with pytest.raises(FileNotFoundError, match="elsewhere"), replacing(tmp_path / "file"):
        (tmp_path / "elsewhere").read_text()
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "file"):
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    kept = tmp_path / "checkpoints" / "last.ckpt"
    for path in (kept, kept.with_name(".last.ckpt.7.tmp"), tmp_path / "notes.tmp"):
        path.write_text("")
    remove_remains(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["last.ckpt", "notes.tmp"]
