import assert from "node:assert";
import { homedir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { commands } from "./command";

test("what the settings name is all that is tried", () => {
  assert.deepStrictEqual(commands(["/opt/devlint", "-x"], "/usr/bin/python3"), [
    { command: "/opt/devlint", args: ["-x", "server"] },
  ]);
});

test("a program may be named by itself", () => {
  assert.deepStrictEqual(commands("/opt/devlint", "/usr/bin/python3"), [{ command: "/opt/devlint", args: ["server"] }]);
  assert.deepStrictEqual(commands("", undefined), [{ command: "devlint", args: ["server"] }]);
});

test("the selected environment goes before the PATH", () => {
  const tried = commands([], "/venv/bin/python");
  assert.deepStrictEqual(
    tried.map(({ command }) => command),
    ["/venv/bin/python", "devlint"],
  );
  assert.deepStrictEqual(tried[0].args, ["-P", "-m", "devlint", "server"]);
});

test("without an environment, the PATH is all there is", () => {
  assert.deepStrictEqual(commands([], undefined), [{ command: "devlint", args: ["server"] }]);
});

test("a path is taken from the folder, and may speak of it, of the home and of the environment", () => {
  const folder = join("/work", "project");
  process.env.DEVLINT_OF_THE_TEST = "/opt/venv";
  const program = (path: string[] | string): string => commands(path, undefined, folder)[0].command;
  assert.strictEqual(program("devlint"), "devlint");
  assert.strictEqual(program(".venv/bin/devlint"), join(folder, ".venv", "bin", "devlint"));
  assert.strictEqual(program("${workspaceFolder}/.venv/bin/devlint"), `${folder}/.venv/bin/devlint`);
  assert.strictEqual(program(["~/venv/bin/devlint"]), `${homedir()}/venv/bin/devlint`);
  assert.strictEqual(program("${userHome}/devlint"), `${homedir()}/devlint`);
  assert.strictEqual(program("${env:DEVLINT_OF_THE_TEST}/bin/devlint"), "/opt/venv/bin/devlint");
  assert.strictEqual(program("C:\\venv\\devlint.exe"), "C:\\venv\\devlint.exe");
  assert.deepStrictEqual(commands(["x", "--config=${workspaceFolder}/a"], undefined, folder)[0].args, [
    `--config=${folder}/a`,
    "server",
  ]);
});
