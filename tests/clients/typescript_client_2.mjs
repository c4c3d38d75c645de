// Tests `@modelcontextprotocol/client` 2.x against the server.
//
// The third argument chooses the era: `legacy`, the SDK's default (the method `initialize`), or `auto`. `auto` calls
// `server/discover`, and must choose the stateless revision 2026-07-28.

import { Client, SdkError, SdkErrorCode } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { ClientTimedOut, run } from './scenario.mjs';

const mode = process.argv[4];
const [name, expectedVersion] = {
  legacy: ['typescript-client-2 legacy', '2025-11-25'],
  auto: ['typescript-client-2 stateless', '2026-07-28'],
}[mode];

async function connect({ command, args, env }) {
  const client = new Client(
    { name: 'qwed-mcp-client-tests', version: '1.0.0' },
    { versionNegotiation: { mode } },
  );
  await client.connect(new StdioClientTransport({ command, args, env }));

  return {
    protocolVersion: client.getNegotiatedProtocolVersion(),
    serverName: client.getServerVersion()?.name,
    instructions: client.getInstructions() ?? '',
    listTools: async () => (await client.listTools()).tools,
    prompt: async (name, values) => {
      const { prompts } = await client.listPrompts();
      const { messages } = await client.getPrompt({ name, arguments: values });
      return { names: prompts.map((prompt) => prompt.name), text: messages[0].content.text };
    },
    call: async (tool, toolArguments, { timeoutMs, onProgress } = {}) => {
      const options = { timeout: timeoutMs, onprogress: onProgress && (({ progress }) => onProgress(progress)) };
      try {
        const result = await client.callTool({ name: tool, arguments: toolArguments }, options);
        return {
          isError: result.isError ?? false,
          texts: result.content.filter((block) => block.type === 'text').map((block) => block.text),
          pictures: result.content.filter((block) => block.type === 'image'),
          meta: result._meta ?? {},
        };
      } catch (error) {
        // The SDK itself has sent the cancel notification.
        const timedOut = error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout;
        throw timedOut ? new ClientTimedOut() : error;
      }
    },
    close: () => client.close(),
  };
}

await run(name, expectedVersion, connect);
