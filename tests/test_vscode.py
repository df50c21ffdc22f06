"""The extension of VS Code: its manifest, and that it starts the server that there is."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from exogpu.cli.commands import app
from exogpu.cli.lsp.document_checks import Job
from exogpu.diagnostics.verdict import Policy

FOLDER = Path(__file__).parent.parent / "editors" / "vscode"
MANIFEST = json.loads((FOLDER / "package.json").read_text())

HARNESS = """
const Module = require("module");
const told = { started: [], stopped: 0, commands: {}, errors: [] };
const settings = { python: process.argv[2], policy: "paper", loading: 7, checking: 8 };
const stubs = {
  vscode: {
    workspace: {
      getConfiguration: () => ({ get: (name) => settings[name] }),
      workspaceFolders: [{ uri: { fsPath: "/project" } }],
      createFileSystemWatcher: (glob) => glob,
      onDidChangeConfiguration: () => ({}),
    },
    window: { showErrorMessage: (text) => told.errors.push(text) },
    commands: { registerCommand: (name, run) => { told.commands[name] = run; return {}; } },
    extensions: {
      getExtension: () => ({
        isActive: true,
        exports: { environments: {
          getActiveEnvironmentPath: () => "chosen",
          resolveEnvironment: async (path) =>
            ({ executable: { uri: { fsPath: `/${path}/python` } } }),
        } },
      }),
    },
  },
  "vscode-languageclient/node": {
    LanguageClient: class {
      constructor(id, name, server, client) { Object.assign(this, { server, client }); }
      async start() {
        if (this.server.command === "/broken") throw new Error("no such file");
        told.started.push([this.server, this.client]);
      }
      async stop() { told.stopped += 1; }
    },
  },
};
const load = Module._load;
Module._load = (name, ...rest) => stubs[name] ?? load(name, ...rest);
(async () => {
  const extension = require(process.argv[3]);
  await extension.activate({ subscriptions: [] });
  await told.commands["exogpu.restart"]();
  await extension.deactivate();
  console.log(JSON.stringify({ ...told, commands: Object.keys(told.commands) }));
})();
"""


def run(python: str, tmp_path: Path) -> dict:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    (tmp_path / "harness.js").write_text(HARNESS)
    command = [node, "harness.js", python, str(FOLDER / "extension.js")]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


def test_it_starts_the_server_and_stops_it(tmp_path: Path) -> None:
    told = run("/set/python", tmp_path)
    assert told["errors"] == [] and told["stopped"] == 2
    (server, client), again = told["started"]
    assert server == again[0]
    assert server["command"] == "/set/python" and server["options"] == {"cwd": "/project"}
    assert server["args"] == ["-m", "exogpu", "lsp"]
    assert "lsp" in {one.name or one.callback.__name__ for one in app.registered_commands}
    assert client["documentSelector"] == [{"scheme": "file", "language": "python"}]
    # What it hands over is what the server reads.
    options = client["initializationOptions"]
    assert options == {"policy": "paper", "loading": 7, "checking": 8}
    Job("/file.py", {}, **options)


def test_it_takes_the_interpreter_that_was_chosen(tmp_path: Path) -> None:
    assert run("", tmp_path)["started"][0][0]["command"] == "/chosen/python"


def test_where_the_server_does_not_start_it_says_how_to_get_it(tmp_path: Path) -> None:
    told = run("/broken", tmp_path)
    assert told["started"] == [] and told["stopped"] == 0
    assert "/broken -m pip install 'exogpu[lsp]'" in told["errors"][0]


def test_the_manifest_names_what_there_is() -> None:
    assert (FOLDER / MANIFEST["main"]).is_file()
    for name in ("name", "version", "publisher", "engines", "license", "description"):
        assert MANIFEST[name]
    properties = MANIFEST["contributes"]["configuration"]["properties"]
    defaults = {name.removeprefix("exogpu."): one["default"] for name, one in properties.items()}
    job = Job("/file.py", {})
    assert defaults.pop("python") == ""
    assert defaults == {name: getattr(job, name) for name in defaults}
    assert {*properties["exogpu.policy"]["enum"]} == {policy.value for policy in Policy}
    assert MANIFEST["capabilities"]["untrustedWorkspaces"]["supported"] is False
    (command,) = MANIFEST["contributes"]["commands"]
    assert f'"{command["command"]}"' in (FOLDER / "extension.js").read_text()
