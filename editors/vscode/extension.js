// Starts `exogpu lsp` with the Python of the workspace, and hands it the open Python files.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

// The Python to run: the one that is set, the one that the Python extension has chosen, python3.
async function python() {
  const set = vscode.workspace.getConfiguration("exogpu").get("python");
  if (set) {
    return set;
  }
  const extension = vscode.extensions.getExtension("ms-python.python");
  if (extension) {
    try {
      const api = extension.isActive ? extension.exports : await extension.activate();
      const chosen = api.environments.getActiveEnvironmentPath();
      const environment = await api.environments.resolveEnvironment(chosen);
      return environment.executable.uri.fsPath;
    } catch (error) {
      console.warn(`exogpu: the Python extension names no interpreter: ${error}`);
    }
  }
  return process.platform === "win32" ? "python" : "python3";
}

async function start() {
  const settings = vscode.workspace.getConfiguration("exogpu");
  const folders = vscode.workspace.workspaceFolders;
  const command = await python();
  const options = folders ? { cwd: folders[0].uri.fsPath } : {};
  client = new LanguageClient(
    "exogpu",
    "exogpu",
    { command, args: ["-m", "exogpu", "lsp"], options },
    {
      documentSelector: [{ scheme: "file", language: "python" }],
      initializationOptions: {
        policy: settings.get("policy"),
        loading: settings.get("loading"),
        checking: settings.get("checking"),
      },
      synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.py") },
    },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const remedy = `${command} -m pip install 'exogpu[lsp]'`;
    vscode.window.showErrorMessage(`exogpu lsp does not start: ${error}. Try: ${remedy}`);
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running) {
    await running.stop();
  }
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("exogpu.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) =>
      change.affectsConfiguration("exogpu") ? restart() : undefined,
    ),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
