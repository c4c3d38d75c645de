// Resolves the configuration of an unpacked bundle as Claude Desktop does, with the official package.
//
//     resolve.mjs FOLDER JSON-OF-THE-USER'S-CHOICES
//
// Prints {"mcpServers": {"qwed": {command, args, env}}}.
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { getMcpConfigForManifest, hasRequiredConfigMissing } from "@anthropic-ai/mcpb";

const [folder, choices] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(`${folder}/manifest.json`, "utf8"));
const userConfig = JSON.parse(choices);
if (hasRequiredConfigMissing({ manifest, userConfig })) throw new Error("a choice is missing");
const entry = await getMcpConfigForManifest({
  manifest,
  extensionPath: folder,
  systemDirs: { HOME: homedir() },
  userConfig,
  pathSeparator: "/",
});
console.log(JSON.stringify({ mcpServers: { qwed: entry } }));
