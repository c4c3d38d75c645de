// Tests `@modelcontextprotocol/sdk` 1.x, which most TypeScript hosts use, against the server (revision 2025-11-25).

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';

import { ClientTimedOut, run } from './scenario.mjs';

async function connect({ command, args, env }) {
  const client = new Client({ name: 'qwed-mcp-client-tests', version: '1.0.0' });
  const transport = new StdioClientTransport({ command, args, env });
  // The SDK reports the negotiated version only to the transport.
  let protocolVersion;
  transport.setProtocolVersion = (version) => {
    protocolVersion = version;
  };
  await client.connect(transport);

  return {
    protocolVersion,
    serverName: client.getServerVersion().name,
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
        const result = await client.callTool({ name: tool, arguments: toolArguments }, undefined, options);
        return {
          isError: result.isError ?? false,
          texts: result.content.filter((block) => block.type === 'text').map((block) => block.text),
          pictures: result.content.filter((block) => block.type === 'image'),
          meta: result._meta ?? {},
        };
      } catch (error) {
        // The SDK itself has sent the cancel notification. The SDK's code for a timeout equals the server's code for
        // a missing token.
        const timedOut = timeoutMs && error instanceof McpError && error.code === ErrorCode.RequestTimeout;
        throw timedOut ? new ClientTimedOut() : error;
      }
    },
    close: () => client.close(),
  };
}

await run('typescript-sdk-1', '2025-11-25', connect);
