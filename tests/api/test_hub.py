"""Agents on the Hugging Face hub, which is a server on this machine here."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from api_runs import untrained

import tokenworlds as tw
from tokenworlds.core import files

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """Serves the files of one repository, `ada/agent`, as the hub resolves them."""

    folder: Path
    asked: list[str]

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self.wfile.write(self._answer())

    def _answer(self) -> bytes:
        owner, name, *rest = self.path.strip("/").split("/")
        self.asked.append(rest[-1])
        file = self.folder / rest[-1]
        known = (owner, name) == ("ada", "agent") and rest[0] == "resolve" and file.is_file()
        content = file.read_bytes() if known else b""
        self.send_response(200 if known else 404)
        if known:
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        else:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return content

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    """A hub with an agent; its cache is empty."""
    from huggingface_hub import constants

    Hub.folder, Hub.asked = tmp_path / "hub", []
    untrained("step-vq-m").save(Hub.folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
        yield Hub
        server.shutdown()
        thread.join()


def test_an_agent_on_the_hub_acts_like_the_saved_one(hub: type[Hub]) -> None:
    here, there = tw.Agent.load(hub.folder), tw.Agent.load("hub:ada/agent")
    frame = np.random.default_rng(0).integers(0, 256, here.observation_space.shape, np.uint8)
    assert there.env == here.env
    assert [here.act(frame) for _ in range(5)] == [there.act(frame) for _ in range(5)]


def test_only_weights_and_configuration_are_downloaded(hub: type[Hub]) -> None:
    (hub.folder / "evil.py").write_text("raise SystemExit")
    tw.Agent.load("hub:ada/agent")
    assert set(hub.asked) == {"config.json", "weights.safetensors"}


def test_code_that_the_hub_names_is_refused(hub: type[Hub]) -> None:
    document = json.loads((hub.folder / "config.json").read_text())
    text = json.dumps(document["recipe"]).replace("tokenworlds.worlds.latent", "evil_module")
    document["recipe"] = json.loads(text)
    document.pop(files.CHECKSUM)
    document[files.CHECKSUM] = files.checksum(document)
    (hub.folder / "config.json").write_text(json.dumps(document))
    with pytest.raises(tw.UserError, match="evil_module"):
        tw.Agent.load("hub:ada/agent")
    with pytest.raises(tw.UserError, match="cannot be trusted"):
        tw.Agent.load("hub:ada/agent", trust=True)


def test_an_unknown_repository_is_one_sentence(hub: type[Hub]) -> None:
    with pytest.raises(tw.UserError, match=r"cannot get config.json of hub:ada/other"):
        tw.Agent.load("hub:ada/other")


@pytest.mark.parametrize("name", ["hub:", "hub:ada", "hub:../x/y", "hub:a/b/c", "hub:a/b@"])
def test_a_name_that_is_no_repository_is_refused(name: str) -> None:
    with pytest.raises(tw.UserError, match="write hub:USER/NAME"):
        tw.Agent.load(name)
