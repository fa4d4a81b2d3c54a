// Which command starts the server.

/** A program and its arguments. */
export interface Command {
  command: string;
  args: string[];
}

/**
 * The commands to try, in their order: the one that the settings name, or else the module of the selected environment and
 * the program on the PATH.
 */
export function commands(path: string[] | string, interpreter: string | undefined): Command[] {
  const [command, ...args] = typeof path === "string" ? [path].filter(Boolean) : path;
  if (command) {
    return [{ command, args: [...args, "server"] }];
  }
  // -P: nothing is imported from the folder that is open.
  const module = interpreter ? [{ command: interpreter, args: ["-P", "-m", "devlint", "server"] }] : [];
  return [...module, { command: "devlint", args: ["server"] }];
}
