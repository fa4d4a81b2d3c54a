// The extension: finds devlint, starts its language server, and restarts it when its environment changes.

import { execFile } from "node:child_process";
import * as vscode from "vscode";
import { LanguageClient, LanguageClientOptions, ServerOptions } from "vscode-languageclient/node";
import { Command, commands } from "./command";

const ID = "devlint";
let client: LanguageClient | undefined;
let output: vscode.LogOutputChannel;
// Starts and ends follow each other, however fast they are asked for.
let turn: Promise<void> = Promise.resolve();

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  output = vscode.window.createOutputChannel(ID, { log: true });
  context.subscriptions.push(
    output,
    vscode.commands.registerCommand("devlint.restart", restart),
    vscode.commands.registerCommand("devlint.fixAll", fixAll),
    vscode.commands.registerCommand("devlint.showOutput", () => output.show()),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("devlint.path")) {
        void restart();
      }
    }),
  );
  const python = await pythonExtension();
  const changed = python?.environments.onDidChangeActiveEnvironmentPath(() => void restart());
  if (changed) {
    context.subscriptions.push(changed);
  }
  await restart();
}

export async function deactivate(): Promise<void> {
  await inTurn(stop);
}

function restart(): Promise<void> {
  return inTurn(async () => {
    await stop();
    await start();
  });
}

function inTurn(work: () => Promise<void>): Promise<void> {
  turn = turn.then(work, work);
  return turn;
}

async function stop(): Promise<void> {
  const running = client;
  client = undefined;
  try {
    await running?.dispose();
  } catch (fault) {
    // One that could not be started, or has ended by itself, is nothing to stop.
    output.warn(String(fault));
  }
}

async function start(): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const path = vscode.workspace.getConfiguration(ID, folder).get<string[] | string>("path", []);
  for (const candidate of commands(path, await interpreter(folder), folder?.fsPath)) {
    const fault = (await whatIsWrongWith(candidate)) ?? (await startWith(candidate));
    if (fault === undefined) {
      return;
    }
    output.error(`${candidate.command}: ${fault}`);
  }
  void tellThatNoneIsFound();
}

/** Not waited for: who installs devlint leaves the message where it is, and selects the environment. */
async function tellThatNoneIsFound(): Promise<void> {
  const install = "devlint was found in no environment: pip install 'devlint[lsp]', or set devlint.path";
  if ((await vscode.window.showErrorMessage(install, "Show why")) === "Show why") {
    output.show();
  }
}

/** Starts the server; what went wrong, where something did. */
async function startWith({ command, args }: Command): Promise<string | undefined> {
  output.info(`${command} ${args.join(" ")}`);
  const server: ServerOptions = { command, args };
  const options: LanguageClientOptions = {
    documentSelector: [
      { scheme: "file", language: "python" },
      { scheme: "untitled", language: "python" },
      { scheme: "vscode-notebook-cell", language: "python" },
    ],
    initializationOptions: vscode.workspace.getConfiguration(ID),
    synchronize: { configurationSection: ID },
    outputChannel: output,
    traceOutputChannel: output,
  };
  client = new LanguageClient(ID, server, options);
  try {
    await client.start();
    return undefined;
  } catch (fault) {
    return String(fault);
  }
}

/** Why a command can't start a server; undefined where it can: one that is told nothing ends at once, and in good order. */
function whatIsWrongWith({ command, args }: Command): Promise<string | undefined> {
  return new Promise((resolve) => {
    const tried = execFile(command, args, { timeout: 20_000 }, (error, _stdout, stderr) => {
      resolve(error ? stderr.trim().split("\n").pop() || error.message : undefined);
    });
    tried.stdin?.on("error", () => undefined);
    tried.stdin?.end();
  });
}

async function fixAll(): Promise<void> {
  await vscode.commands.executeCommand("editor.action.codeAction", { kind: "source.fixAll.devlint", apply: "first" });
}

/** What the Python extension offers of environments, as far as it is asked for here. */
interface PythonExtension {
  environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(path: { path: string }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

async function pythonExtension(): Promise<PythonExtension | undefined> {
  const extension = vscode.extensions.getExtension<PythonExtension>("ms-python.python");
  return extension ? await extension.activate() : undefined;
}

async function interpreter(folder: vscode.Uri | undefined): Promise<string | undefined> {
  const python = await pythonExtension();
  const path = python?.environments.getActiveEnvironmentPath(folder);
  const environment = path && (await python?.environments.resolveEnvironment(path));
  return environment?.executable.uri?.fsPath;
}
