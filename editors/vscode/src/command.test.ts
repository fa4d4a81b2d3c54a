import assert from "node:assert";
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
