import subprocess
import sys

import pytest
from tests.lab.data.official_files import REPOSITORY

from expertload.exceptions import ParameterError
from expertload.lab.data import dataset_names, describe_datasets, fetch_dataset, load_dataset
from expertload.lab.data.files import cache_folder, read_entries


def test_every_family_of_the_paper_is_there():
    expected = {
        "cifar100", "cifar100-lt-100", "cifar100-lt-50", "cifar100-lt-10", "cifar100-c",
        "tiny-imagenet", "dermamnist", "retinamnist", "tissuemnist", "breastmnist", "svhn",
        "fashion-mnist", "digits", "folder", "npz",
    }  # fmt: skip
    assert expected <= set(dataset_names())


def test_the_list_tells_what_is_at_hand(tmp_path, cifar_folder):
    (tmp_path / "retinamnist.npz").write_bytes(b"")
    lines = {info.usage: info for info in describe_datasets(data_dir=tmp_path)}
    assert lines["digits"].present
    assert lines["cifar100"].present
    assert lines["retinamnist"].present
    assert not lines["svhn"].present
    assert lines["npz:PATH"].summary


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cifar-100", "did you mean 'cifar100'"),
        ("zzzzzz", "lab data list"),
        ("npz", "npz:PATH"),
        ("digits:3", "has no argument. Got '3' after a colon"),
    ],
)
def test_unknown_names_are_a_sentence(name, words):
    with pytest.raises(ParameterError, match=words):
        load_dataset(name)


def test_a_negative_seed_is_a_sentence():
    with pytest.raises(ParameterError, match="seed"):
        load_dataset("digits", seed=-1)


def test_fetching_what_is_embedded_or_at_hand_needs_no_network(cifar_folder):
    assert fetch_dataset("digits", data_dir=cifar_folder) == cifar_folder
    fetch_dataset("cifar100-lt-50", data_dir=cifar_folder)


def test_the_cache_folder_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPERTLOAD_DATA", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("EXPERTLOAD_DATA")
    assert cache_folder().name == "expertload"


def test_addresses_and_checksums_are_complete():
    for entry in read_entries().values():
        for file in entry.files:
            algorithm, _, digest = file.checksum.partition(":")
            assert len(bytes.fromhex(digest)) == {"md5": 16, "sha256": 32}[algorithm]
            assert file.url.startswith("http")
            assert bool(file.unpacks_to) == bool(file.holds)


@pytest.mark.processes
def test_listing_does_not_wait_for_torch_or_an_http_client():
    code = (
        "import sys; from expertload.lab.data import describe_datasets; describe_datasets();"
        "sys.exit(any(m in sys.modules for m in ('torch', 'requests', 'PIL', 'sklearn')))"
    )
    path = {"PYTHONPATH": str(REPOSITORY / "src"), "EXPERTLOAD_DATA": "."}
    assert subprocess.run([sys.executable, "-c", code], env=path).returncode == 0


def test_a_folder_or_file_without_its_prefix_is_answered_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").mkdir()
    (tmp_path / "own.npz").write_bytes(b"")
    for name, meant in (("images", "folder:images"), ("own.npz", "npz:own.npz")):
        with pytest.raises(ParameterError, match=f"did you mean '{meant}'"):
            load_dataset(name)
