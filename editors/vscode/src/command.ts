// Which command starts the server.

import { homedir } from "node:os";
import { join } from "node:path";

/** A program and its arguments. */
export interface Command {
  command: string;
  args: string[];
}

/**
 * The commands to try, in their order: the one that the settings name, or else the module of the selected environment and
 * the program on the PATH. Paths are taken from the folder that is open.
 */
export function commands(path: string[] | string, interpreter: string | undefined, folder?: string): Command[] {
  const [command, ...args] = (typeof path === "string" ? [path].filter(Boolean) : path).map((word, at) =>
    expanded(word, folder, at === 0),
  );
  if (command) {
    return [{ command, args: [...args, "server"] }];
  }
  // -P: nothing is imported from the folder that is open.
  const module = interpreter ? [{ command: interpreter, args: ["-P", "-m", "devlint", "server"] }] : [];
  return [...module, { command: "devlint", args: ["server"] }];
}

/** A word of the setting with what it says of folders and the environment filled in; a program with a slash is a path. */
function expanded(word: string, folder: string | undefined, isProgram: boolean): string {
  const filled = word
    .replace(/^~(?=$|[/\\])/, homedir())
    .replace(/\$\{userHome\}/g, homedir())
    .replace(/\$\{workspaceFolder\}/g, folder ?? "")
    .replace(/\$\{env:(\w+)\}/g, (_, name: string) => process.env[name] ?? "");
  return isProgram && folder && /^[^/\\]+[/\\]/.test(filled) && !/^[A-Za-z]:/.test(filled) ? join(folder, filled) : filled;
}
